package app

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
	"headgate/web/api"
)

const drillTestToken = "a-token-of-a-test-0123456789"

// newDrillFixture is an App with drills, and a client of its admin plane.
func newDrillFixture(t *testing.T) (*fixture, *api.Client) {
	t.Helper()
	r := newFixture(t, func(c *config.Config) { c.Admin.Token = config.NewSecret(drillTestToken) })
	c, err := api.NewClient(api.ClientConfig{URL: "http://" + r.app.AdminAddr(), Token: drillTestToken, Actor: "ana@ops1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return r, c
}

// TestDrillAPI runs, aborts, freezes and lists drills through the admin plane of
// a whole headgate.
func TestDrillAPI(t *testing.T) {
	r, c := newDrillFixture(t)
	ctx := t.Context()
	list, err := c.Drills(ctx)
	n := slices.IndexFunc(list.Items, func(d api.DrillSummary) bool { return d.ID == "burst" })
	if err != nil || n < 0 || len(list.Items) < 11 || list.Items[n].Last != nil || len(list.Items[n].Problems) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	dry, err := c.RunDrill(ctx, "burst", api.DrillRunRequest{DryRun: true, Speed: 20})
	if err != nil || dry.Plan.Blocked != nil || dry.Plan.NotificationTarget != (sandbox.SlackChannel{}).Target() || dry.Plan.Pool != "default" || len(dry.Plan.Steps) < 4 || len(dry.Plan.Hypotheses) < 3 {
		t.Errorf("%+v, %v", dry.Plan, err)
	}
	var p *api.Problem
	if _, err := c.RunDrill(ctx, "unknown", api.DrillRunRequest{}); !errors.As(err, &p) || p.Type != api.TypeUnknownDrill || !slices.Contains(p.Drills, "burst") {
		t.Errorf("%v", err)
	}
	run, err := c.RunDrill(ctx, "burst", api.DrillRunRequest{Speed: 20, Reason: "to see"})
	if err != nil || run.Run == nil {
		t.Fatalf("%+v, %v", run, err)
	}
	if report, err := c.Run(ctx, *run.Run, api.LastPoint); err != nil || !report.Live || report.Actor != "ana@ops1" || report.Spec.ID != "burst" {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := c.RunDrill(ctx, "overload", api.DrillRunRequest{}); !errors.As(err, &p) || p.Type != api.TypeDrillBusy || p.Run != *run.Run {
		t.Errorf("%v", err)
	}
	if list, err := c.Drills(ctx); err != nil || list.Items[n].Running == nil || *list.Items[n].Running != *run.Run {
		t.Errorf("%+v, %v", list.Items[n], err)
	}
	if dry, err := c.RunDrill(ctx, "overload", api.DrillRunRequest{DryRun: true}); err != nil || dry.Plan.Blocked == nil || !strings.Contains(*dry.Plan.Blocked, *run.Run) {
		t.Errorf("%+v, %v", dry.Plan, err)
	}
	if done, err := c.Abort(ctx, *run.Run, "enough"); err != nil || done.ID != *run.Run {
		t.Fatalf("%+v, %v", done, err)
	}
	r.eventually("the run is recorded as aborted", func() bool {
		report, err := c.Run(ctx, *run.Run, api.FullSeries)
		return err == nil && !report.Live && report.Verdict == drill.Aborted && !report.Ended.IsZero()
	})
	if _, err := c.Abort(ctx, *run.Run, ""); !errors.As(err, &p) || p.Type != api.TypeDrillRefused {
		t.Errorf("again: %v", err)
	}
	if _, err := c.Abort(ctx, "019ca1b0-0000-7000-8000-00000000000a", ""); !errors.As(err, &p) || p.Type != api.TypeUnknownRun {
		t.Errorf("another: %v", err)
	}
	checkFrozen(t, c)
	if list, err := c.Drills(ctx); err != nil || list.Items[n].Running != nil || list.Items[n].Last == nil || list.Items[n].Last.Verdict != "aborted" || !list.Items[n].LastPassedAt.IsZero() {
		t.Errorf("%+v, %v", list.Items[n], err)
	}
	runs, err := c.Runs(ctx, drill.Query{Drill: "burst", Verdicts: []drill.Verdict{drill.Aborted}, Limit: 10})
	if err != nil || len(runs.Items) != 1 || runs.Items[0].ID != *run.Run {
		t.Errorf("%+v, %v", runs, err)
	}
	if _, err := c.Runs(ctx, drill.Query{After: "nowhere", Limit: 1}); !errors.As(err, &p) || p.Status != 400 {
		t.Errorf("%v", err)
	}
	checkDrillAudit(t, r, *run.Run)
}

func checkFrozen(t *testing.T, c *api.Client) {
	t.Helper()
	ctx := t.Context()
	if f, err := c.Freeze(ctx, "release week"); err != nil || !f.Frozen || f.By != "ana@ops1" || f.Reason != "release week" || f.Since.IsZero() {
		t.Errorf("%+v, %v", f, err)
	}
	var p *api.Problem
	if _, err := c.RunDrill(ctx, "burst", api.DrillRunRequest{}); !errors.As(err, &p) || p.Type != api.TypeDrillsFrozen {
		t.Errorf("%v", err)
	}
	if dry, err := c.RunDrill(ctx, "burst", api.DrillRunRequest{DryRun: true}); err != nil || dry.Plan.Blocked == nil || !strings.Contains(*dry.Plan.Blocked, "release week") {
		t.Errorf("%+v, %v", dry.Plan, err)
	}
	if f, err := c.Unfreeze(ctx, "it is out"); err != nil || f.Frozen {
		t.Errorf("%+v, %v", f, err)
	}
}

// checkDrillAudit: every order is in the audit, with who gave it, the refused ones
// too; dry runs are not.
func checkDrillAudit(t *testing.T, r *fixture, run string) {
	t.Helper()
	want := []string{
		"drill unfreeze done", "drill run refused", "drill freeze done", "drill abort refused", "drill abort refused", "drill abort done", "drill run refused", "drill run done",
	}
	var got []string
	r.eventually("the audit", func() bool {
		a, err := r.app.record.store.Audit(t.Context(), control.AuditQuery{Kind: control.KindDrill})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, e := range entriesOf(a) {
			if e.Via != control.ViaAPI || e.Actor != "ana@ops1" {
				continue // what the runner itself notes
			}
			got = append(got, e.Action+" "+string(e.Result))
			if e.Action == "drill run" && e.Result == control.Done && (e.Subject != run || e.Reason != "to see" || e.Inputs["drill"] != "burst" || e.Inputs["speed"] != "20") {
				t.Errorf("%+v", e)
			}
		}
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("audit %q, want %q", got, want)
	}
}

// TestDrillAPIPersists: runs and freezes outlast a restart.
func TestDrillAPIPersists(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	start := func() *App {
		t.Helper()
		cfg := testConfig(t, "http://127.0.0.1:9")
		cfg.DataDir = dir
		a, err := New(cfg, "test", slog.New(slog.DiscardHandler))
		if err == nil {
			err = a.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := start()
	ports := a.drillAPI()
	started, err := ports.Controller.Start(t.Context(), drill.StartRequest{Name: "burst", Speed: 20, Actor: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a = start()
	defer func() { _ = a.Stop(t.Context()) }()
	ports = a.drillAPI()
	run, err := ports.Runs.Run(t.Context(), started.Run)
	if err != nil || run.Status != drill.Ended || !slices.Contains([]drill.Verdict{drill.Aborted, drill.Skipped, drill.Interrupted}, run.Verdict) {
		t.Errorf("%+v, %v", run, err)
	}
	if _, live := ports.Catalog.Live(started.Run); live {
		t.Error("it goes on")
	}
	h, err := ports.Runs.History(t.Context(), drill.HistoryQuery{Since: time.Now().AddDate(-1, 0, 0), Until: time.Now()})
	if err != nil || len(h.Days) != 1 || len(h.Latest) != 1 || h.Latest[0].Run != started.Run {
		t.Errorf("%+v, %v", h, err)
	}
}
