package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"headgate/internal/cli"
	"headgate/internal/modelstub"
)

// newStub returns the command that makes headgate testable without a GPU: with it, a proxy
// and a load can be tried on one machine.
func newStub() *cobra.Command {
	var listen, service, level string
	var c modelstub.Config
	cmd := &cobra.Command{
		Use:   "stub",
		Short: "Run an OpenAI-compatible stand-in endpoint",
		Long: `Run a stand-in for a model endpoint. It lists a model, answers chat completions,
completions, responses and embeddings, streamed or not, with a configurable service
time, and has a finite number of slots behind which calls queue, as a real server.
GET /counts returns counters as JSON: calls started, in flight now and at the peak,
holding a slot, waiting for one, and ended by outcome.

Service times:
  uniform:5s-30s                 evenly distributed
  fixed:10s                      always the same
  lognormal:10s,0.6              median and sigma
  bimodal:0.7,3s-8s,20s-40s      a share of short calls, the rest long
  tokens:4000,66                 prompt tokens read and output tokens written per second`,
		Example: `  headgate stub
  headgate stub --slots 16 --service lognormal:10s,0.6 --speed 20
  curl -s 127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \
    -d '{"model":"stub-model","messages":[{"role":"user","content":"hello"}]}'
  curl -s 127.0.0.1:8080/counts`,
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "`address` to listen on")
	f.IntVar(&c.Slots, "slots", 4, "concurrent calls; 0 is unlimited")
	f.StringVar(&service, "service", "uniform:5s-30s", "service-time `model`")
	f.Uint64Var(&c.Seed, "seed", 1, "start of all randomness")
	f.Float64Var(&c.Speed, "speed", 1, "divide all durations by this")
	f.StringSliceVar(&c.Models, "model", nil, "`name` of a model to list (default stub-model)")
	f.StringVar(&level, "log-level", "info", "debug shows every call")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if c.Service, err = modelstub.ParseService(service); err != nil {
			return cli.Usagef("--service: %w", err)
		}
		var l slog.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return cli.Usagef("--log-level: must be debug, info, warn or error, is %q", level)
		}
		c.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: l}))
		return runStub(cmd.Context(), listen, c)
	}
	return cmd
}

// runStub serves until ctx ends, and logs what the stub counted.
func runStub(ctx context.Context, listen string, c modelstub.Config) error {
	stub, err := modelstub.New(c)
	if err != nil {
		return cli.Usage(err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: stub, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	// The stub is closed first, so that no call waits in it while the server closes.
	defer context.AfterFunc(ctx, func() {
		stub.Close()
		_ = server.Close()
	})()
	c.Log.Info("stub serving", "listen", l.Addr(), "slots", c.Slots, "service", c.Service, "speed", c.Speed)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	s := stub.Stats()
	c.Log.Info("stub stopped", "calls", s.Calls, "completed", s.Completed, "client_gone", s.ClientGone,
		"peak_in_flight", s.PeakInFlight)
	return nil
}
