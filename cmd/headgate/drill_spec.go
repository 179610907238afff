package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headgate/internal/modelstub"
	"headgate/runbooks/drill/spec"
)

func newDrillSpec() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "spec NAME",
		Short: "Print the definition of a built-in drill, as a start for one's own",
		Long: `Print the definition of a built-in drill: a file that the settings may name under
drills. One with the same id takes the place of the built-in one. The service need
not run.`,
		Example: "  headgate drill spec burst > weekly.yaml",
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, ok := spec.BuiltInText(args[0])
		if !ok {
			return usageError{fmt.Errorf("no built-in drill %.60q: there are %s", args[0], builtInNames())}
		}
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}

func builtInNames() string {
	all, err := spec.BuiltIn()
	if err != nil {
		return "none: " + err.Error()
	}
	var names []string
	for _, s := range all {
		names = append(names, s.ID)
	}
	return strings.Join(names, ", ")
}

func newDrillCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check the definition of a drill, and say what a run would do",
		Long: `Check a file that holds the definition of a drill, and say what a run of it would
do. Nothing is opened or changed, and the service need not run. Exit status 2 means
that it is not right; every mistake is said with its place. Whether its pool is
there, and whether it may touch production, is up to the settings: headgate check
looks at that.`,
		Example: "  headgate drill check weekly.yaml",
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		loaded, err := spec.Load(args[0], spec.Settings{AllowLive: true, Service: func(text string) error {
			_, err := modelstub.ParseService(text)
			return err
		}})
		if err != nil {
			return usageError{err}
		}
		out := cmd.OutOrStdout()
		for _, line := range spec.Outline(loaded) {
			fmt.Fprintln(out, line)
		}
		for _, e := range loaded.Expect {
			fmt.Fprintf(out, "it must show: %s\n", e)
		}
		for _, e := range loaded.AbortIf {
			fmt.Fprintf(out, "it stops when: %s\n", e)
		}
		return nil
	}
	return cmd
}
