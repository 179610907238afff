package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"headgate/internal/strictyaml"
)

// Exit codes, as docs/commands.md has them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitUnexpected  = 4
)

// usageError is a call that cannot be meant: wrong flags, arguments or settings.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// unreachableError says that the service could not be reached in any way.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// unexpectedResultError says that something was tried and did not come to what was expected.
type unexpectedResultError struct{ error }

func (e unexpectedResultError) Unwrap() error { return e.error }

// execute runs one command line and returns its exit code. Data goes to stdout,
// messages go to stderr.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return executeIn(ctx, systemEnvironment(), args, stdout, stderr)
}

// executeIn runs one command line as if on another machine.
func executeIn(ctx context.Context, h environment, args []string, stdout, stderr io.Writer) int {
	root := newRoot(h)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "headgate: "+strings.ReplaceAll(err.Error(), "\n", "\nheadgate: "))
	var usage usageError
	var problem strictyaml.Diagnostic
	var problems strictyaml.Diagnostics
	if errors.As(err, &usage) || errors.As(err, &problem) || errors.As(err, &problems) {
		return exitUsage
	}
	var unreachable unreachableError
	if errors.As(err, &unreachable) {
		return exitUnreachable
	}
	var unmet unexpectedResultError
	if errors.As(err, &unmet) {
		return exitUnexpected
	}
	return exitFailed
}

func newRoot(h environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "headgate",
		Short: "Refuse work for a model endpoint before its queue becomes the outage",
		Long: `headgate stands in front of an OpenAI-compatible endpoint. It lets as many
requests through as the endpoint can serve in time, keeps a short queue, and
answers the rest at once with 429 and an honest Retry-After.`,
		Example: `  headgate demo                          see it work, no configuration
  MC_ENDPOINT=http://127.0.0.1:8080/v1 headgate serve
  headgate serve --config headgate.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nsee `%s --help`", err, cmd.CommandPath())}
	})
	root.CompletionOptions.DisableDefaultCmd = true // ours says when an argument is wrong
	root.AddCommand(newDemo(), newServe(), newCheck(), newStub(), newVersion(), newCompletion(),
		newStatus(h), newRollback(h), newRestore(h), newObserve(h), newPause(h), newResume(h), newAudit(h), newBackup(h), newIncident(h), newDrill(h), newLogin(h), newAlerts(h), newRules())
	disableFileCompletion(root)
	return root
}

// usageArgs makes wrong arguments a wrong use.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w%s\nsee `%s --help`", err, usageHint(cmd, args), cmd.CommandPath())}
		}
		return nil
	}
}

// usageHint says what would be right: the arguments of cmd, or the commands below it
// that look like the one that is not there.
func usageHint(cmd *cobra.Command, args []string) string {
	if !cmd.HasAvailableSubCommands() {
		return "\nusage: " + cmd.UseLine()
	}
	if len(args) == 0 {
		return ""
	}
	cmd.SuggestionsMinimumDistance = 2 // letters; 0, the default, finds beginnings only
	names := cmd.SuggestionsFor(args[0])
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}
