package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/runbooks/drill"
)

// TestRunKept: a recorded run is read back unchanged, at every step and after a
// restart.
func TestRunKept(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	r := mustClaim(t, s, noon, newScheduledRun("r-1", "burst"))
	is := func(want drill.Run) {
		t.Helper()
		if diff := cmp.Diff(want, mustLoadRun(t, s, "r-1")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	is(r)
	for _, points := range []int{1, pointsPerChunk - 1, pointsPerChunk, 2*pointsPerChunk + 7, drill.MaxPoints} {
		r = mustSaveRun(t, s, noon.Add(time.Second), withProgress(r, points))
		is(r)
	}
	r = mustSaveRun(t, s, noon.Add(time.Minute), withVerdict(r, drill.Failed))
	is(r)
	closeStore(t, s)
	s = openTestStore(t, dir)
	is(r)
	runs, next, err := s.Drills().Runs(t.Context(), drill.Query{})
	if err != nil || next != "" || len(runs) != 1 {
		t.Fatalf("%d runs, %q, %v", len(runs), next, err)
	}
	r.Series, r.Messages, r.Reverts = nil, nil, nil
	if diff := cmp.Diff(r, runs[0]); diff != "" {
		t.Errorf("in the list (-want +got):\n%s", diff)
	}
	if _, err := s.Drills().Run(t.Context(), "r-2"); !errors.Is(err, drill.ErrNoRun) {
		t.Errorf("another: %v", err)
	}
}

// TestClaimOnce: one run of an occurrence and one at a time, also when claims and
// ends are repeated because their results were unknown.
func TestClaimOnce(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	d := s.Drills()
	r := mustClaim(t, s, noon, newScheduledRun("r-1", "burst"))
	if again := mustClaim(t, s, noon, newScheduledRun("r-1", "burst")); again.Fence != r.Fence {
		t.Errorf("the same claim again: fence %d, want %d", again.Fence, r.Fence)
	}
	_, err := d.Claim(t.Context(), noon.Add(time.Second), newScheduledRun("r-2", "burst"), lease)
	if !errors.Is(err, drill.ErrClaimed) {
		t.Errorf("the same occurrence: %v", err)
	}
	_, err = d.Claim(t.Context(), noon.Add(time.Second), newManualRun("r-3", "overload"), lease)
	var busy *drill.BusyError
	if !errors.As(err, &busy) || busy.Run != "r-1" || busy.Drill != "Weekly burst" || !busy.Since.Equal(noon) {
		t.Errorf("beside it: %v", err)
	}
	r = withVerdict(r, drill.Passed)
	for range 2 {
		mustSaveRun(t, s, noon.Add(2*time.Second), r)
	}
	other := r
	other.Verdict = drill.Failed
	if err := d.Save(t.Context(), noon, other); !errors.Is(err, drill.ErrLockLost) {
		t.Errorf("an ended run was changed: %v", err)
	}
	if _, err := d.Claim(t.Context(), noon.Add(time.Hour), newScheduledRun("r-4", "burst"), lease); !errors.Is(err, drill.ErrClaimed) {
		t.Errorf("an occurrence that is over: %v", err)
	}
	next := mustClaim(t, s, noon.Add(time.Hour), newManualRun("r-5", "burst"))
	if next.Fence <= r.Fence {
		t.Errorf("fence %d after %d", next.Fence, r.Fence)
	}
	if got := listRunIDs(t, s, drill.Query{}); !cmp.Equal(got, []string{"r-5", "r-1"}) {
		t.Errorf("runs %v: a refused claim must leave nothing", got)
	}
}

// TestLease: a run that is not heard of loses its lock to the next, is closed, and
// can do no more. One that is heard of keeps it.
func TestLease(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	d := s.Drills()
	r := mustClaim(t, s, noon, newScheduledRun("r-1", "burst"))
	r = mustSaveRun(t, s, noon.Add(lease-1), withProgress(r, 3)) // renews
	if _, err := d.Claim(t.Context(), noon.Add(2*lease-time.Second), newManualRun("r-2", "overload"), lease); !errors.Is(err, drill.ErrBusy) {
		t.Fatalf("within the lease: %v", err)
	}
	next := mustClaim(t, s, noon.Add(2*lease), newManualRun("r-2", "overload"))
	stale := mustLoadRun(t, s, "r-1")
	if stale.Status != drill.Ended || stale.Verdict != drill.Interrupted || stale.Reason == "" || stale.Phases[1].Ended.IsZero() || len(stale.Series) != 3 {
		t.Errorf("the run whose lease ran out: %+v", stale)
	}
	for _, late := range []drill.Run{r, withVerdict(r, drill.Passed)} {
		if err := d.Save(t.Context(), noon.Add(2*lease), late); !errors.Is(err, drill.ErrLockLost) {
			t.Errorf("it came back as %s: %v", late.Status, err)
		}
	}
	forged := next
	forged.Fence--
	if err := d.Save(t.Context(), noon.Add(2*lease), forged); !errors.Is(err, drill.ErrLockLost) {
		t.Errorf("under another fence: %v", err)
	}
	mustSaveRun(t, s, noon.Add(4*lease), withVerdict(next, drill.Passed)) // late, without another claim
	if err := d.Save(t.Context(), noon, newManualRun("r-9", "burst")); !errors.Is(err, drill.ErrNoRun) {
		t.Errorf("a run that was never claimed: %v", err)
	}
}

// TestFreeze: nothing is claimed while drills are frozen, and the order survives a
// start.
func TestFreeze(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	if z, err := s.Drills().Frozen(t.Context()); err != nil || z != (drill.Freeze{}) {
		t.Errorf("at first: %+v, %v", z, err)
	}
	want := drill.Freeze{On: true, Actor: "anna", Reason: "release week", Since: noon}
	if err := s.Drills().SetFreeze(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openTestStore(t, dir)
	if z, err := s.Drills().Frozen(t.Context()); err != nil || z != want {
		t.Errorf("%+v, %v, want %+v", z, err, want)
	}
	if _, err := s.Drills().Claim(t.Context(), noon, newScheduledRun("r-1", "burst"), lease); !errors.Is(err, drill.ErrFrozen) {
		t.Errorf("claim: %v", err)
	}
	if err := s.Drills().SetFreeze(t.Context(), drill.Freeze{Actor: "bert", Since: noon.Add(1e9)}); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, s, noon, newScheduledRun("r-1", "burst"))
}

// TestNoted: what never began is kept like a run, once for an occurrence.
func TestNoted(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	d := s.Drills()
	missed := withVerdict(newScheduledRun("r-1", "burst"), drill.Missed)
	missed.Started, missed.Ended, missed.Count, missed.Phases = time.Time{}, time.Time{}, 3, nil
	for range 2 {
		if err := d.RecordNotRun(t.Context(), missed); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(missed, mustLoadRun(t, s, "r-1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	other := missed
	other.ID = "r-2"
	if err := d.RecordNotRun(t.Context(), other); !errors.Is(err, drill.ErrClaimed) {
		t.Errorf("the same occurrence: %v", err)
	}
	if _, err := d.Claim(t.Context(), noon, newScheduledRun("r-3", "burst"), lease); !errors.Is(err, drill.ErrClaimed) {
		t.Errorf("a claim of it: %v", err)
	}
	other.ID, other.Status, other.Verdict = "r-1", drill.Running, ""
	if err := d.RecordNotRun(t.Context(), other); err == nil {
		t.Error("a run that goes on was noted")
	}
	mustClaim(t, s, noon, newScheduledRun("r-4", "overload")) // a note takes no lock
}

// TestInterrupt: at a start, what the process before has left is closed, once, and
// the lock is free. What this one runs is left alone.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	left := mustSaveRun(t, s, noon, withProgress(mustClaim(t, s, noon, newScheduledRun("r-1", "burst")), 700))
	if closed, err := s.Drills().CloseInterrupted(t.Context(), noon); err != nil || len(closed) != 0 {
		t.Errorf("the own run: %v, %v", closed, err)
	}
	closeStore(t, s)
	s = openTestStore(t, dir)
	now := noon.Add(time.Second) // well within the lease: the process is gone all the same
	got, err := s.Drills().CloseInterrupted(t.Context(), now)
	left.Status, left.Verdict, left.Reason, left.Ended, left.Phases[1].Ended = drill.Ended, drill.Interrupted, interruptedReason, now, now
	if diff := cmp.Diff([]drill.Run{left}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(left, mustLoadRun(t, s, "r-1")); diff != "" {
		t.Errorf("in the record (-want +got):\n%s", diff)
	}
	if got, err := s.Drills().CloseInterrupted(t.Context(), now); err != nil || len(got) != 0 {
		t.Errorf("again: %v, %v", got, err)
	}
	if err := s.Drills().Save(t.Context(), now, withVerdict(left, drill.Passed)); !errors.Is(err, drill.ErrLockLost) {
		t.Errorf("it came back: %v", err)
	}
	next := mustClaim(t, s, now, newManualRun("r-2", "burst"))
	if next.Fence <= left.Fence {
		t.Errorf("fence %d after %d", next.Fence, left.Fence)
	}
	if got, err := s.Drills().CloseInterrupted(t.Context(), now.Add(time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("the own run: %v, %v", got, err)
	}
}

// TestDues: due times come back, and go.
func TestDues(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	d := s.Drills()
	a := drill.DueTime{Drill: "a", Schedule: "0 9 * * 1", Zone: "Europe/London", Next: noon}
	b := drill.DueTime{Drill: "b", Next: noon.Add(time.Hour)}
	for _, due := range []drill.DueTime{{Drill: "a", Schedule: "@daily", Next: noon}, a, b} {
		if err := d.SetDueTime(t.Context(), due); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.DueTimes(t.Context())
	if diff := cmp.Diff(map[string]drill.DueTime{"a": a, "b": b}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := d.DeleteDueTime(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got, err := d.DueTimes(t.Context()); err != nil || len(got) != 1 || got["b"] != b {
		t.Errorf("%v, %v", got, err)
	}
	if err := d.SetDueTime(t.Context(), drill.DueTime{Drill: "a\nb", Next: noon}); err == nil {
		t.Error("an ID of two lines was taken")
	}
}

// TestUnwritableRuns: what could not be read back is refused before it is written.
func TestUnwritableRuns(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	for name, spoil := range map[string]func(r *drill.Run){
		"no ID":           func(r *drill.Run) { r.ID = "" },
		"an odd ID":       func(r *drill.Run) { r.ID = "a.b" },
		"no drill":        func(r *drill.Run) { r.Drill = "" },
		"an odd drill":    func(r *drill.Run) { r.Drill = "a\x1b[2J" },
		"no trigger":      func(r *drill.Run) { r.Trigger = "" },
		"a foreign word":  func(r *drill.Run) { r.Trigger = "cosmic" },
		"a spec too long": func(r *drill.Run) { r.Spec.Expect = make([]drill.Expectation, 2000) },
	} {
		r := newManualRun("r-1", "burst")
		spoil(&r)
		if _, err := s.Drills().Claim(t.Context(), noon, r, lease); err == nil {
			t.Errorf("%s: claimed", name)
		}
	}
	if _, err := s.Drills().Claim(t.Context(), noon, newManualRun("r-1", "burst"), 0); err == nil {
		t.Error("claimed without a lease")
	}
	r := mustClaim(t, s, noon, newManualRun("r-1", "burst"))
	for name, spoil := range map[string]func(r *drill.Run){
		"no status":      func(r *drill.Run) { r.Status = "" },
		"ended, no word": func(r *drill.Run) { r.Status = drill.Ended },
		"a verdict early": func(r *drill.Run) {
			r.Status, r.Verdict = drill.Running, drill.Passed
		},
	} {
		r := r
		spoil(&r)
		if err := s.Drills().Save(t.Context(), noon, r); err == nil {
			t.Errorf("%s: saved", name)
		}
	}
	if got := mustLoadRun(t, s, "r-1"); got.Status != drill.Claimed {
		t.Errorf("%+v", got)
	}
}
