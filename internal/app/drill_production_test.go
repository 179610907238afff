package app

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/runbooks/drill"
)

// saveIncident puts an incident into the record of the App.
func saveIncident(r *fixture, id, pool string, level engine.Level, opened, ended time.Time) {
	r.Helper()
	i := engine.Incident{
		ID: id, Key: engine.Key{Rule: "queue_age", Pool: pool}, Level: level, Peak: level,
		Opened: opened, Changed: opened, Ended: ended, Seq: 1, Summary: "the oldest waiting task has waited for long", Unit: "s",
	}
	if !ended.IsZero() {
		i.Resolution = engine.Recovered
	}
	b := engine.Batch{Incidents: []engine.Incident{i}}
	if err := r.app.record.store.EngineJournal(nil).Save(context.Background(), b); err != nil {
		r.Fatal(err)
	}
}

const (
	firstID = "01a22a23-49da-7041-b2b9-8a1777e187aa"
	otherID = "01a22a23-49da-7041-b2b9-8a1777e187ab"
)

// A drill's task that reaches production is detected, and so are counts without
// an arrival.
func TestProductionDriftDetected(t *testing.T) {
	r := newFixture(t, nil)
	close(r.upstream.release)
	p := r.app.drillProduction()
	run := overloadedRun()
	if drift, err := p.Drift(t.Context(), run); err != nil || drift.Measured {
		t.Errorf("%+v, %v: production was not observed before", drift, err)
	}
	if err := p.Ready(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	want := func(value float64, samples int) {
		t.Helper()
		drift, err := p.Drift(t.Context(), run)
		if err != nil || !drift.Measured || drift.Value != value || drift.Samples != samples {
			t.Errorf("%+v, %v; want %v of %d", drift, err, value, samples)
		}
	}
	want(0, 0)
	<-r.sendChat()
	want(0, 1)
	req := r.request(http.MethodPost, "http://"+r.app.DataAddr()+chatPath, chatBody)
	req.Header.Set("Drill-Task", "7")
	if a := r.do(req); a.status != http.StatusOK {
		t.Fatalf("%+v", a)
	}
	want(1, 2)
	r.app.metrics.proxy.OnArrival("default")
	want(2, 3)
}

// A page in production while a drill runs aborts it; its verdict and what was
// undone are recorded.
func TestProductionPageAbortsADrill(t *testing.T) {
	r := newFixture(t, nil)
	id := startDrill(r)
	saveIncident(r, firstID, "default", engine.LevelPage, time.Now().UTC(), time.Time{})
	ended := waitDrillEnded(r, id)
	if ended.Verdict != drill.Aborted || !strings.Contains(ended.Reason, "a page is open: queue_age of pool default") || len(ended.Reverts) == 0 {
		t.Errorf("%s: %s, reverted %+v", ended.Verdict, ended.Reason, ended.Reverts)
	}
	skipped, err := r.app.drills.Start(t.Context(), drill.StartRequest{Name: "burst", Actor: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if ended := waitDrillEnded(r, skipped.Run); ended.Verdict != drill.Skipped {
		t.Errorf("a drill during an incident: %s: %s", ended.Verdict, ended.Reason)
	}
}

// TestStopAbortsADrill: a stop aborts the drill in progress and is bounded.
func TestStopAbortsADrill(t *testing.T) {
	r := newFixture(t, nil)
	startDrill(r)
	if err := r.app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if logs := r.logs.String(); !strings.Contains(logs, "verdict=aborted") || !strings.Contains(logs, "headgate is shutting down") {
		t.Error("the log does not say that the drill was aborted")
	}
}

// startDrill starts a built-in drill and waits until its load runs.
func startDrill(r *fixture) (id string) {
	r.Helper()
	started, err := r.app.drills.Start(r.Context(), drill.StartRequest{Name: "burst", Actor: "me", Speed: 5})
	if err != nil {
		r.Fatal(err)
	}
	r.eventually("the drill is in its baseline", func() bool {
		now, _ := r.app.drills.Live(started.Run)
		return len(now.Phases) > 0 && now.Phases[len(now.Phases)-1].Name == drill.PhaseBaseline
	})
	return started.Run
}

// waitDrillEnded returns a run as it is recorded when it has ended.
func waitDrillEnded(r *fixture, id string) (run drill.Run) {
	r.Helper()
	r.eventually("the drill has ended", func() bool {
		var err error
		run, err = r.app.record.store.Drills().Run(r.Context(), id)
		return err == nil && run.Status == drill.Ended
	})
	return run
}
