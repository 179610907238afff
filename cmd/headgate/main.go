package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // drills name time zones, and some machines have no zone files

	"github.com/spf13/cobra"

	"headgate/internal/cli"
)

func main() { os.Exit(run()) }

// run ends with the first signal; a second one kills the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	return execute(ctx, cli.System(), os.Args[1:], os.Stdout, os.Stderr)
}

// execute runs one command line and returns its exit code. Data goes to stdout,
// messages go to stderr.
func execute(ctx context.Context, env cli.Env, args []string, stdout, stderr io.Writer) int {
	root := newRoot(env)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "headgate: "+strings.ReplaceAll(err.Error(), "\n", "\nheadgate: "))
	}
	return cli.ExitCode(err)
}

// newRoot returns the whole command tree. env stands for the machine, so that tests can run
// command lines in one process, each with its own environment.
func newRoot(env cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "headgate",
		Short: "Load-shedding proxy for OpenAI-compatible endpoints",
		Long: `headgate is a proxy in front of an OpenAI-compatible endpoint. It admits as many
requests as the endpoint can serve in time, keeps a short queue, and refuses the
rest at once with 429 and a realistic Retry-After.`,
		Example: `  headgate demo                          see it work, no configuration
  MC_ENDPOINT=http://127.0.0.1:8080/v1 headgate serve
  headgate serve --config headgate.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.Usagef("%w\nsee `%s --help`", err, cmd.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true // ours reports wrong arguments as usage errors
	root.AddCommand(newDemo(), newServe(), newCheck(), newStub(), newVersion(), newCompletion(),
		newRollback(env), newRestore(env), newObserve(env), newPause(env), newResume(env),
		newStatus(env), newAudit(env), newBackup(env), newLogin(env),
		newIncident(env), newDrill(env), newAlerts(env), newRules(env))
	finish(root)
	return root
}

// finish gives a command and those below it what all have in common: wrong
// arguments are usage errors, groups show their help, and shells complete files only
// for arguments that are files.
func finish(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		finish(c)
	}
	check := cmd.Args
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return cli.Usagef("%w%s\nsee `%s --help`", err, usageHint(cmd, args), cmd.CommandPath())
		}
		return nil
	}
	if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// usageHint says what would be right: the arguments of cmd, or the commands below it
// whose names are similar.
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

// release is set when make builds a binary (-ldflags -X main.release=...).
var release string

// version returns the release, or what the Go tool knows of the build.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// newVersion prints the Go version and the platform, too, because reports of bugs need them.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  headgate version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "headgate %s %s %s/%s\n",
				version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
