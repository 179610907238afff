package apitest

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// Engine starts an engine over a board and a shelf, which stops with the test.
func Engine(t testing.TB, every time.Duration, b *Board, s *Shelf, log *slog.Logger) *engine.Engine {
	t.Helper()
	metrics, err := engine.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := engine.DefaultConfig()
	c.Interval = every
	e, err := engine.New(engine.Options{Config: c, Rules: Rules(), Signals: b, Journal: s, Log: log, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.WithoutCancel(t.Context())) }) // the shelf may be broken on purpose
	return e
}

// Service is an admin API on a listener of this machine, which watches and has no
// pools.
type Service struct {
	URL    string
	Board  *Board
	Shelf  *Shelf
	Desk   *Desk
	Engine *engine.Engine
}

// Serve starts a Service, which stops with the test.
func Serve(t testing.TB, token string) *Service {
	t.Helper()
	s := &Service{Board: NewBoard(), Shelf: NewShelf(), Desk: NewDesk()}
	log := slog.New(slog.DiscardHandler)
	s.Engine = Engine(t, 5*time.Millisecond, s.Board, s.Shelf, log)
	admin, err := api.NewAdmin(api.AdminConfig{
		Token: token, Orders: nobody{}, Statuses: nobody{}, Audit: nobody{}, Incidents: s.Shelf, Watch: s.Engine, Drills: s.Desk.Port(), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ops := api.Ops{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }}
	server := httptest.NewServer(api.Handler(ops, admin))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Trouble puts a value on the board and waits until what comes of it is recorded:
// an open incident, whose ID it returns, or none.
func (s *Service) Trouble(t testing.TB, rule, pool string, v float64) string {
	t.Helper()
	s.Board.Put(rule, pool, v)
	key := engine.Key{Rule: rule, Pool: pool}
	for {
		id := s.openOf(key)
		if (id != "") == (v >= 15) && s.settled(key, v) {
			return id
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s in %q did not come to %v", rule, pool, v)
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *Service) openOf(key engine.Key) string {
	for _, i := range s.Engine.Incidents() {
		if i.Key == key && i.Open() {
			return i.ID
		}
	}
	return ""
}

// settled says whether the record is up to date with the value of a key.
func (s *Service) settled(key engine.Key, v float64) bool {
	for _, i := range s.Engine.Incidents() {
		if i.Key == key && (s.Shelf.Recorded(i.ID) != i || i.Open() && i.Value != v) {
			return false
		}
	}
	return true
}

// nobody has no pools and no audit.
type nobody struct{}

var errNobody = errors.New("there are no pools here")

// Do implements api.Orders.
func (nobody) Do(context.Context, time.Time, control.Order) (control.Result, error) {
	return control.Result{}, errNobody
}

// Status implements api.Statuses.
func (nobody) Status(time.Time) api.Status { return api.Status{Version: "test"} }

// Changes implements api.Audit.
func (nobody) Changes(context.Context, api.ChangeQuery) (api.ChangePage, error) {
	return api.ChangePage{}, nil
}
