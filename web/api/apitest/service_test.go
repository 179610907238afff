package apitest_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"headgate/engine"
	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServer goes through the life of an incident as a test would.
func TestServer(t *testing.T) {
	const token = "a-token-of-a-test"
	s := apitest.NewServer(t, token)
	c, err := api.NewClient(api.ClientConfig{URL: s.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := s.SetValue(t, "queue_age", "a", 30)
	if s.SetValue(t, "journal", "", 20) == id {
		t.Error("two troubles with one ID")
	}
	if again := s.SetValue(t, "queue_age", "a", 31); again != id {
		t.Errorf("a new incident %s for a new value", again)
	}
	report, err := c.Incident(t.Context(), id)
	if err != nil || *report.Value != 31 || len(report.Events) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if left := s.SetValue(t, "queue_age", "a", 1); left != "" {
		t.Errorf("still open: %s", left)
	}
	if s.Incidents.Stored(id).Open() {
		t.Error("the end is not recorded")
	}
	if status, err := c.Status(t.Context()); err != nil || len(status.IncidentsOpen) != 1 || len(status.Pools) != 0 {
		t.Errorf("%+v, %v", status, err)
	}
	if _, err := c.SetMode(t.Context(), "", api.ModeRequest{Mode: "observe"}); err == nil {
		t.Error("an order was carried out where there are no pools")
	}
	if page, err := c.Audit(t.Context(), control.AuditQuery{}); err != nil || len(page.Items) != 1 || page.Items[0].Entry.Result != "refused" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestIncidentStore(t *testing.T) {
	s, ctx := apitest.NewIncidentStore(), t.Context()
	now := time.Now()
	for _, id := range []string{"1", "2", "3"} {
		s.Add(engine.Incident{ID: id, Opened: now, Key: engine.Key{Rule: "r", Pool: id}})
	}
	e := engine.Event{Incident: "2", Seq: 1}
	for range 2 { // an attempt of unknown outcome is repeated
		if err := s.Save(ctx, engine.Batch{Events: []engine.Event{e}}); err != nil {
			t.Fatal(err)
		}
	}
	s.SetDeliveries("2", api.Delivery{ID: "d"})
	if d, err := s.Incident(ctx, "2"); err != nil || len(d.Events) != 1 || len(d.Deliveries) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := s.Incident(ctx, "4"); !errors.Is(err, engine.ErrNoIncident) {
		t.Errorf("unknown: %v", err)
	}
	first, next, err := s.List(ctx, api.IncidentQuery{Rule: "r", Limit: 2})
	if err != nil || len(first) != 2 || first[0].ID != "3" {
		t.Fatalf("%+v, %v", first, err)
	}
	second, last, err := s.List(ctx, api.IncidentQuery{After: next, Limit: 2})
	if err != nil || len(second) != 1 || last != "" {
		t.Errorf("%+v, %v", second, err)
	}
	if _, _, err := s.List(ctx, api.IncidentQuery{After: "2", Limit: 2}); !errors.Is(err, control.ErrUnknownCursor) {
		t.Errorf("a key that is none: %v", err)
	}
	if page, _, err := s.List(ctx, api.IncidentQuery{Pool: "1", Since: now.Add(time.Second), Limit: 2}); err != nil || len(page) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	broken := errors.New("broken")
	s.SetError(broken)
	_, _, errList := s.List(ctx, api.IncidentQuery{Limit: 1})
	_, errOne := s.Incident(ctx, "1")
	for _, err := range []error{errList, errOne, s.Save(ctx, engine.Batch{})} {
		if !errors.Is(err, broken) {
			t.Errorf("broken: %v", err)
		}
	}
}
