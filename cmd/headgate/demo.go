package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"headgate/internal/cli"
	"headgate/internal/demo"
	"headgate/internal/modelstub"
)

// demoFlags are the flags that are no options of the demo itself.
type demoFlags struct {
	service, svg             string
	plain, json, keep, slack bool
}

// newDemo returns the command for a first impression, which needs neither settings nor an
// endpoint nor network access.
func newDemo() *cobra.Command {
	o := demo.DefaultOptions()
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Compare admission control with an uncontrolled copy, live",
		Long: `Send the same arrivals to two copies of headgate, one with admission control and
one without, each in front of its own stub endpoint, and watch one queue grow
without bound while the other stays short. No configuration; loopback only; Ctrl-C
ends it and removes everything.

The load is 0.8 tasks per second for 300 s, doubled from 120 s to 240 s. --speed
divides all times, including the SLO and the queue age limit; the values shown are
scaled back. Retry-After is not scaled, and these clients do not retry.

With --slack the built-in rules watch the controlled side at the same speed, and a
stand-in for Slack, a page on loopback, shows how one message follows each incident
from its first warning to its end. Its buttons work: disable and re-enable admission
control there, and see the effect here. The burst then lasts until 480 s of 600 s, so
that a warning becomes a page. Slack accepts one message per second at any speed, so
the demo is slower. Times in messages are real seconds.

Service times are written as for "headgate stub".`,
		Example: `  headgate demo
  headgate demo --workers 4              the overload of the article: 3.5 and 7 times capacity
  headgate demo --slack                  a burst becomes incidents, and one message follows each
  headgate demo --workers 64             enough capacity: nothing is refused
  headgate demo --service lognormal:10s,0.6 --seed 7
  headgate demo --json | jq .gated       the summary for programs`,
	}
	f := cmd.Flags()
	f.Float64Var(&o.Speed, "speed", o.Speed, fmt.Sprintf(
		"divide all times by this, %d to %d; with --slack to %d, by default %d",
		demo.MinSpeed, demo.MaxSpeed, demo.MaxSlackSpeed, demo.SlackSpeed))
	f.IntVar(&o.Workers, "workers", o.Workers, "permits of each copy and slots of each endpoint")
	f.StringVar(&flags.service, "service", o.Service.String(), "service-time `model`")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "start of all randomness")
	f.BoolVar(&flags.slack, "slack", false, "alert on the controlled side, in a stand-in for Slack")
	f.BoolVar(&flags.plain, "plain", false, "plain lines, even on a terminal")
	f.BoolVar(&flags.json, "json", false, "print the summary as JSON, and progress to stderr")
	f.BoolVar(&flags.keep, "keep", false, "keep both copies running after the load, until Ctrl-C")
	f.StringVar(&flags.svg, "svg", "", "write a picture of the run to this `file`")
	_ = cmd.MarkFlagFilename("svg", "svg") // fails only for a flag that does not exist
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// --slack changes the default of the speed; a speed that was given wins.
		if speed := o.Speed; flags.slack {
			o = o.WithSlack()
			if cmd.Flags().Changed("speed") {
				o.Speed = speed
			}
		}
		return runDemo(cmd, o, flags)
	}
	return cmd
}

// runDemo checks the flags before anything starts, and runs the demo on the screen.
func runDemo(cmd *cobra.Command, o demo.Options, flags demoFlags) (err error) {
	if o.Service, err = modelstub.ParseService(flags.service); err != nil {
		return cli.Usagef("--service: %w", err)
	}
	if err := o.Validate(); err != nil {
		return cli.Usagef("--%w\nsee `%s --help`", err, cmd.CommandPath())
	}
	screen := demoScreen(cmd.OutOrStdout(), cmd.ErrOrStderr(), flags)
	screen.Program = programName(os.Args[0])
	if flags.svg != "" {
		file, err := os.Create(flags.svg)
		if err != nil {
			return cli.Usagef("--svg: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		screen.SVG = file
	}
	// With this, a closed pipe makes the next write fail instead of killing the
	// process, so that the demo cleans up.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	return demo.Show(cmd.Context(), o, screen)
}

// programName is the program's name as the shell found it, if that is a plain path: the demo
// shows commands to copy, and a name that needs quotes would break them.
func programName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("./-_", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return ""
	}
	return name
}

// demoScreen selects the live view for a terminal, plain lines for anything else.
func demoScreen(stdout, stderr io.Writer, flags demoFlags) demo.Screen {
	s := demo.Screen{Out: stdout, Live: stdout, JSON: flags.json, Keep: flags.keep}
	if flags.json {
		s.Live = stderr
	}
	if !cli.IsTerminal(s.Live) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.Colour = os.Getenv("NO_COLOR") == ""
	if flags.plain {
		return s
	}
	s.Size = func() (int, int) {
		width, height, err := term.GetSize(int(s.Live.(*os.File).Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}
	return s
}
