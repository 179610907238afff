package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
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
	if err := r.app.store.EngineJournal(nil).Save(context.Background(), b); err != nil {
		r.Fatal(err)
	}
}

// assertStopError checks why a run may not begin, or go on.
func assertStopError(t *testing.T, err error, want string) *drill.StopError {
	t.Helper()
	var stop *drill.StopError
	if !errors.As(err, &stop) || !strings.Contains(stop.Reason, want) {
		t.Fatalf("%v, want a stop because of %q", err, want)
	}
	return stop
}

const (
	firstID = "01a22a23-49da-7041-b2b9-8a1777e187aa"
	otherID = "01a22a23-49da-7041-b2b9-8a1777e187ab"
)

func TestNoDrillDuringAPage(t *testing.T) {
	r := newFixture(t, nil)
	p := &production{app: r.app}
	run := overloadedRun()
	run.Started = time.Now().UTC()
	saveIncident(r, firstID, "default", engine.LevelWarn, run.Started, time.Time{})
	saveIncident(r, otherID, "default", engine.LevelPage, run.Started.Add(-time.Hour), run.Started)
	if err := p.Ready(t.Context(), run); err != nil {
		t.Fatalf("a warning, and a page that is over, stop it: %v", err)
	}
	if err := p.Check(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	saveIncident(r, firstID, "default", engine.LevelPage, run.Started.Add(time.Second), time.Time{})
	for _, ask := range []func(context.Context, drill.Run) error{p.Ready, p.Check} {
		if s := assertStopError(t, ask(t.Context(), run), "a page is open: queue_age of pool default"); !s.Page {
			t.Errorf("%+v", s)
		}
	}
}

// A live run causes pages of its own pool, and no others.
func TestLiveDrillAndPages(t *testing.T) {
	r := newFixture(t, nil)
	p := &production{app: r.app}
	run := overloadedRun()
	run.Started, run.Spec.Target = time.Now().UTC(), drill.Live
	saveIncident(r, firstID, "default", engine.LevelPage, run.Started.Add(time.Second), time.Time{})
	if err := p.Check(t.Context(), run); err != nil {
		t.Errorf("its own page stops it: %v", err)
	}
	saveIncident(r, firstID, "default", engine.LevelPage, run.Started.Add(time.Second), run.Started.Add(2*time.Second))
	saveIncident(r, otherID, "", engine.LevelPage, run.Started.Add(time.Second), time.Time{})
	assertStopError(t, p.Check(t.Context(), run), "of headgate itself")
}

func TestNoDrillInPassThrough(t *testing.T) {
	r := newFixture(t, nil)
	p := &production{app: r.app}
	run := overloadedRun()
	run.Started = time.Now().UTC().Add(-time.Minute)
	order := control.ModeRequest{Pool: "default", Mode: admission.PassThrough, Actor: "me", Reason: "too much is refused"}
	if _, err := r.app.modes.Do(t.Context(), time.Now(), order); err != nil {
		t.Fatal(err)
	}
	if s := assertStopError(t, p.Ready(t.Context(), run), "pool default is in pass-through since"); !s.Mode {
		t.Errorf("%+v", s)
	}
	if err := p.Check(t.Context(), run); err != nil {
		t.Errorf("a twin goes on when the mode changes: %v", err)
	}
	run.Spec.Target = drill.Live
	if s := assertStopError(t, p.Check(t.Context(), run), "was changed to passthrough by me"); !s.Mode {
		t.Errorf("%+v", s)
	}
}

func TestNoDrillWithoutBudget(t *testing.T) {
	r := newFixture(t, nil)
	p := &production{app: r.app}
	save := func(good, bad int64) {
		err := r.app.store.SaveSLO(t.Context(), []engine.SLOCount{{Pool: "default", Hour: time.Now().UTC().Truncate(time.Hour), Good: good, Bad: bad}})
		if err != nil {
			t.Fatal(err)
		}
	}
	save(10, 80)
	if err := p.Ready(t.Context(), overloadedRun()); err != nil {
		t.Errorf("90 tasks say nothing: %v", err)
	}
	save(1520, 80)
	if err := p.Ready(t.Context(), overloadedRun()); err != nil {
		t.Errorf("the budget is used up to its end, and not beyond: %v", err)
	}
	save(1520, 81)
	if s := assertStopError(t, p.Ready(t.Context(), overloadedRun()), "81 of 1601 tasks were bad, of at most 5 in 100"); !s.Budget {
		t.Errorf("%+v", s)
	}
}

func TestDrillUnknownPool(t *testing.T) {
	r := newFixture(t, nil)
	run := overloadedRun()
	run.Spec.Pool = "gone"
	assertStopError(t, (&production{app: r.app}).Ready(t.Context(), run), `no pool "gone"`)
}

// A task of a drill that comes to production is seen, and so are counts that
// nothing came for.
func TestProductionDriftDetected(t *testing.T) {
	r := newFixture(t, nil)
	close(r.upstream.release)
	p := &production{app: r.app}
	run := overloadedRun()
	if drift, err := p.Drift(t.Context(), run); err != nil || drift.Measured {
		t.Errorf("%+v, %v: nobody has looked before", drift, err)
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
	r.app.metrics.OnArrival("default")
	want(2, 3)
}

// A page in production while a drill runs aborts it; its verdict and what was
// undone are recorded.
func TestProductionPageAbortsADrill(t *testing.T) {
	r := newFixture(t, nil)
	run, err := r.app.drills.runner.Start(t.Context(), runner.Request{Spec: overloadedRun().Spec, Trigger: drill.ByHand, Actor: "me", Speed: 5})
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the drill is under way", func() bool {
		now, _ := r.app.drills.runner.Current()
		return len(now.Phases) > 0 && now.Phases[len(now.Phases)-1].Name == drill.PhaseBaseline
	})
	saveIncident(r, firstID, "default", engine.LevelPage, time.Now().UTC(), time.Time{})
	ended, err := r.app.drills.runner.Wait(t.Context(), run.ID)
	if err != nil || ended.Verdict != drill.Aborted || !strings.Contains(ended.Reason, "a page is open: queue_age of pool default") {
		t.Errorf("%s: %s, %v", ended.Verdict, ended.Reason, err)
	}
	kept, err := r.app.drills.store.Run(t.Context(), run.ID)
	if err != nil || kept.Verdict != drill.Aborted || kept.Status != drill.Ended || len(kept.UndoResults) == 0 {
		t.Errorf("recorded as %s %s, undone %+v, %v", kept.Status, kept.Verdict, kept.UndoResults, err)
	}
	skipped, err := r.app.drills.runner.Start(t.Context(), runner.Request{Spec: overloadedRun().Spec, Trigger: drill.ByHand, Actor: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if skipped, err = r.app.drills.runner.Wait(t.Context(), skipped.ID); err != nil || skipped.Verdict != drill.Skipped {
		t.Errorf("a drill during an incident: %s: %s, %v", skipped.Verdict, skipped.Reason, err)
	}
}

// Going down aborts the drill first, and is bounded.
func TestStopAbortsADrill(t *testing.T) {
	r := newFixture(t, nil)
	run, err := r.app.drills.runner.Start(t.Context(), runner.Request{Spec: overloadedRun().Spec, Trigger: drill.ByHand, Actor: "me", Speed: 5})
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the drill is under way", func() bool {
		now, _ := r.app.drills.runner.Current()
		return len(now.Phases) > 3
	})
	if err := r.app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	ended, err := r.app.drills.runner.Wait(t.Context(), run.ID)
	if ended.Verdict != drill.Aborted && err == nil || !strings.Contains(ended.Reason+r.logs.String(), "headgate is shutting down") {
		t.Errorf("%s: %s, %v", ended.Verdict, ended.Reason, err)
	}
}
