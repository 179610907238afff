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

	"headgate/internal/demo"
	"headgate/internal/modelstub"
)

// demoFlags are what the demo is called with.
type demoFlags struct {
	service, svg             string
	plain, json, keep, slack bool
}

func newDemo() *cobra.Command {
	o := demo.DefaultOptions()
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the gate at work beside an ungated copy",
		Long: `Send the same arrivals to two copies of headgate, one with the gate and one
without, each in front of a stand-in endpoint of its own, and watch one queue run
away while the other holds. No configuration; loopback only; Ctrl-C ends it and
removes everything.

The load is 0.8 tasks a second for 300 s, doubled from 120 s to 240 s. --speed
divides all times, the SLO and the gate's queue age among them; what is shown is
multiplied back. Retry-After is not to scale, and nobody obeys it here.

With --slack the side with the gate is watched by the built-in rules at the same
speed, and a stand-in for Slack, a page on loopback, shows how one message follows
each incident from its first warning to its end. Its buttons work: take the gate
out there and put it back, and see it here. The burst lasts until 480 s of
600 s then, so that a warning becomes a page. Slack takes one message a second at
any speed, so that the demo is slower. Times in messages are real seconds.

Service times are written as for "headgate stub".`,
		Example: `  headgate demo
  headgate demo --workers 4              the overload of the article: 3.5 and 7 times capacity
  headgate demo --slack                  a burst becomes incidents, and one message follows each
  headgate demo --workers 64             room for everything: the gate stays out of the way
  headgate demo --service lognormal:10s,0.6 --seed 7
  headgate demo --json | jq .gated       the summary for programs`,
		Args: usageArgs(cobra.NoArgs),
	}
	f := cmd.Flags()
	f.Float64Var(&o.Speed, "speed", o.Speed, fmt.Sprintf("divide all times by this, %d to %d; with --slack to %d, and %d unless said",
		demo.MinSpeed, demo.MaxSpeed, demo.MaxSlackSpeed, demo.SlackSpeed))
	f.IntVar(&o.Workers, "workers", o.Workers, "permits of each gate and slots of each endpoint")
	f.StringVar(&flags.service, "service", o.Service.String(), "service-time `model`")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "start of all randomness")
	f.BoolVar(&flags.slack, "slack", false, "watch the side with the gate, and tell a stand-in for Slack")
	f.BoolVar(&flags.plain, "plain", false, "plain lines, even on a terminal")
	f.BoolVar(&flags.json, "json", false, "print the summary as JSON, and the rest to stderr")
	f.BoolVar(&flags.keep, "keep", false, "leave both copies running after the load, until Ctrl-C")
	f.StringVar(&flags.svg, "svg", "", "write a picture of the run to this `file`")
	_ = cmd.MarkFlagFilename("svg", "svg") // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
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

func runDemo(cmd *cobra.Command, o demo.Options, flags demoFlags) (err error) {
	if o.Service, err = modelstub.ParseService(flags.service); err != nil {
		return usageError{fmt.Errorf("--service: %w", err)}
	}
	if err := o.Validate(); err != nil {
		return usageError{fmt.Errorf("--%w\nsee `%s --help`", err, cmd.CommandPath())}
	}
	screen := demoScreen(cmd.OutOrStdout(), cmd.ErrOrStderr(), flags)
	screen.Program = programName(os.Args[0])
	if flags.svg != "" {
		file, err := os.Create(flags.svg)
		if err != nil {
			return usageError{fmt.Errorf("--svg: %w", err)}
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		screen.SVG = file
	}
	// A reader that goes away gives an error of the next write, so that there is
	// time to clean up.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	return demo.Show(cmd.Context(), o, screen)
}

// programName is a program's name as the shell found it, if that is a plain path.
func programName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("./-_", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return ""
	}
	return name
}

// demoScreen looks at what the output is: a terminal gets the live view.
func demoScreen(stdout, stderr io.Writer, flags demoFlags) demo.Screen {
	s := demo.Screen{Out: stdout, Live: stdout, JSON: flags.json, Keep: flags.keep}
	if flags.json {
		s.Live = stderr
	}
	file, ok := s.Live.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.Colour = os.Getenv("NO_COLOR") == ""
	if flags.plain {
		return s
	}
	s.Size = func() (int, int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}
	return s
}
