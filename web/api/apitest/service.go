package apitest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/web/api"
)

// StartEngine starts an engine over a board and a shelf, which stops with the test.
func StartEngine(t testing.TB, every time.Duration, b *Signals, s *IncidentStore, log *slog.Logger) *engine.Engine {
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

// Server is an admin API on a listener of this machine, which watches and has no
// pools.
type Server struct {
	URL       string
	Signals   *Signals
	Incidents *IncidentStore
	Drills    *Drills
	Engine    *engine.Engine
}

// NewServer starts a Server, which stops with the test.
func NewServer(t testing.TB, token string) *Server {
	t.Helper()
	s := &Server{Signals: NewSignals(), Incidents: NewIncidentStore(), Drills: NewDrills()}
	log := slog.New(slog.DiscardHandler)
	s.Engine = StartEngine(t, 5*time.Millisecond, s.Signals, s.Incidents, log)
	service := NewControl(t, log)
	service.SetEngine(s.Engine)
	admin, err := api.NewAdmin(api.AdminConfig{
		Token: token, Control: service.Service, Status: service, Audit: service.Record, Incidents: s.Incidents, Drills: s.Drills.Ports(), Log: log,
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

// SetValue puts a value on the board and waits until what comes of it is recorded:
// an open incident, whose ID it returns, or none.
func (s *Server) SetValue(t testing.TB, rule, pool string, v float64) string {
	t.Helper()
	s.Signals.Set(rule, pool, v)
	key := engine.Key{Rule: rule, Pool: pool}
	for {
		id := s.openIncidentID(key)
		if (id != "") == (v >= 15) && s.upToDate(key, v) {
			return id
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s in %q did not come to %v", rule, pool, v)
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *Server) openIncidentID(key engine.Key) string {
	for _, i := range s.Engine.Incidents() {
		if i.Key == key && i.Open() {
			return i.ID
		}
	}
	return ""
}

// upToDate says whether the record is up to date with the value of a key.
func (s *Server) upToDate(key engine.Key, v float64) bool {
	for _, i := range s.Engine.Incidents() {
		if i.Key == key && (s.Incidents.Stored(i.ID) != i || i.Open() && i.Value != v) {
			return false
		}
	}
	return true
}
