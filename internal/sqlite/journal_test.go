package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

var _ control.Journal = (*Store)(nil)

// storeKinds are the Stores that must all behave alike.
var storeKinds = map[string]func(*testing.T) *Store{
	"file": func(t *testing.T) *Store { return openTestStore(t, emptyRecordDir(t)) },
	"ephemeral": func(t *testing.T) *Store {
		s, err := Ephemeral(t.Context(), testOptions(""))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		return s
	},
}

// TestJournal holds every kind of Store against what the port promises.
func TestJournal(t *testing.T) {
	promises := map[string]func(*testing.T, *Store){
		"empty":                      testEmpty,
		"a change is read back":      testRoundTrip,
		"the last change stands":     testLastModeLoaded,
		"a repetition does nothing":  testRepetition,
		"all or nothing":             testAllOrNothing,
		"requests in order":          testRequests,
		"nonsense is passed over":    testInvalidRequests,
		"seen never falls":           testSeen,
		"texts are made fit":         testTexts,
		"concurrent use":             testConcurrent,
		"an ended context":           testEnded,
		"closed":                     testClosed,
		"what cannot be read back":   testUnwritable,
		"a number that was used up":  testNumbersExhausted,
		"a bounded read of requests": testManyRequests,
	}
	for kind, make := range storeKinds {
		for name, promise := range promises {
			t.Run(kind+"/"+name, func(t *testing.T) { promise(t, make(t)) })
		}
	}
}

func testEmpty(t *testing.T, s *Store) {
	standings, err := s.ModeStates(t.Context())
	if err != nil || len(standings) != 0 {
		t.Errorf("standings %v, %v", standings, err)
	}
	requests, err := s.QueuedRequests(t.Context(), 0)
	if err != nil || len(requests) != 0 {
		t.Errorf("requests %v, %v", requests, err)
	}
	if err := s.RecordChanges(t.Context(), nil, 0); err != nil {
		t.Errorf("record nothing: %v", err)
	}
	if c := allModeChanges(t, s); len(c) != 0 {
		t.Errorf("changes %v", c)
	}
}

func testRoundTrip(t *testing.T, s *Store) {
	for _, mode := range admission.Modes() {
		for _, via := range control.Vias() {
			for _, action := range []control.ModeAction{control.Rollback, control.Restore, control.SetMode, control.InitialMode} {
				c := newModeChange("p", mode)
				c.Via, c.Action, c.RestoreMode, c.From, c.RequestNumber = via, action, mode, mode, 12
				mustRecord(t, s, 0, c)
				got, _, err := s.ModeChanges(t.Context(), control.AuditQuery{Limit: 1})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]control.ModeChange{c}, got); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
		}
	}
}

func testLastModeLoaded(t *testing.T, s *Store) {
	first, second, other := newModeChange("p", admission.Observe), newModeChange("p", admission.PassThrough), newModeChange("a", admission.Observe)
	second.RestoreMode, second.Actor, second.Reason = admission.Observe, "bert", "burning"
	second.At = first.At.Add(-time.Hour) // the wall clock jumped: the order of recording counts
	mustRecord(t, s, 0, first, other, second)
	want := []control.ModeState{
		{Pool: "a", Mode: admission.Observe, Since: other.At, Actor: "anna", Reason: "to see", Via: other.Via, ChangeID: other.ID},
		{Pool: "p", Mode: admission.PassThrough, RestoreMode: admission.Observe, Since: second.At, Actor: "bert", Reason: "burning", Via: second.Via, ChangeID: second.ID},
	}
	got, err := s.ModeStates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// testRepetition: an attempt of unknown outcome is repeated after later changes.
func testRepetition(t *testing.T, s *Store) {
	first, second := newModeChange("p", admission.Observe), newModeChange("p", admission.PassThrough)
	mustRecord(t, s, 0, first)
	mustRecord(t, s, 0, first, second)
	altered := first
	altered.To, altered.Reason = admission.Enforce, "altered"
	mustRecord(t, s, 0, altered)
	if diff := cmp.Diff([]control.ModeChange{second, first}, allModeChanges(t, s)); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	got, err := s.ModeStates(t.Context())
	if err != nil || len(got) != 1 || got[0].Mode != admission.PassThrough {
		t.Errorf("standings %v, %v, want passthrough as the second change left it", got, err)
	}
}

func testAllOrNothing(t *testing.T, s *Store) {
	bad := newModeChange("q", admission.Observe)
	bad.Action = "no such"
	if err := s.RecordChanges(t.Context(), []control.ModeChange{newModeChange("p", admission.Observe), bad}, 9); err == nil {
		t.Fatal("recorded a change of no known action")
	}
	// A trigger fails the second of two good changes, inside the transaction.
	if _, err := s.writer.ExecContext(t.Context(), `CREATE TEMP TRIGGER refuse BEFORE INSERT ON mode_changes WHEN NEW.pool = 'q'
		BEGIN SELECT RAISE(ABORT, 'refused'); END`); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordChanges(t.Context(), []control.ModeChange{newModeChange("p", admission.Observe), newModeChange("q", admission.Observe)}, 9); err == nil {
		t.Fatal("recorded past a trigger")
	}
	standings, err := s.ModeStates(t.Context())
	if err != nil || len(standings) != 0 || len(allModeChanges(t, s)) != 0 {
		t.Errorf("half of it is there: %v, %v", standings, err)
	}
	mustQueueRequest(t, s, control.ModeRequest{Action: control.Rollback})
	if r, err := s.QueuedRequests(t.Context(), 0); err != nil || len(r) != 1 || r[0].Number != 1 {
		t.Errorf("requests %v, %v: the number of the failed attempt stayed", r, err)
	}
	mustRecord(t, s, 0, newModeChange("p", admission.Observe)) // the connection is as good as before
}

// mustQueueRequest leaves a request through a Store's own connection, so that it works for
// memory too.
func mustQueueRequest(t *testing.T, s *Store, o control.ModeRequest) int64 {
	t.Helper()
	n, err := write(t.Context(), s, "leave", func(w *txWriter) int64 { return w.queueRequest(o) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testRequests(t *testing.T, s *Store) {
	observe := admission.Observe
	orders := []control.ModeRequest{
		{Action: control.Rollback, Actor: "anna", Reason: "fire", Via: control.ViaRequest},
		{Action: control.Restore, Pool: "p", DropOverdue: true, Actor: "bert", Via: control.ViaRequest},
		{Action: control.SetMode, Mode: admission.Observe, Expected: &observe, Actor: "c", Via: control.ViaRequest},
		{Action: control.SetMode, Mode: admission.Enforce, Actor: "d", Via: control.ViaRequest},
	}
	before := time.Now().UTC().Truncate(time.Millisecond)
	for i, o := range orders {
		if n := mustQueueRequest(t, s, o); n != int64(i+1) {
			t.Fatalf("request %d has number %d", i+1, n)
		}
	}
	got, err := s.QueuedRequests(t.Context(), 0)
	if err != nil || len(got) != len(orders) {
		t.Fatalf("%v, %v", got, err)
	}
	for i, r := range got {
		if diff := cmp.Diff(orders[i], r.Mode); diff != "" || r.Number != int64(i+1) {
			t.Errorf("number %d (-want +got):\n%s", r.Number, diff)
		}
		if r.At.Before(before) || r.At.After(time.Now()) || r.At.Location() != time.UTC {
			t.Errorf("request at %v", r.At)
		}
	}
	if got, err := s.QueuedRequests(t.Context(), 2); err != nil || len(got) != 2 || got[0].Number != 3 {
		t.Errorf("after 2: %v, %v", got, err)
	}
	if got, err := s.QueuedRequests(t.Context(), 99); err != nil || len(got) != 0 {
		t.Errorf("after 99: %v, %v", got, err)
	}
}

func testInvalidRequests(t *testing.T, s *Store) {
	const columns = "INSERT INTO mode_requests (at_ms, pool, action, mode, expected, drop_overdue, actor, reason, writer) VALUES "
	nonsense := []string{
		"(1, '', 'explode', '', '', 0, 'a', 'r', 'w')",
		"(1, '', 'first', '', '', 0, 'a', 'r', 'w')",
		"(1, '', '', '', '', 0, 'a', 'r', 'w')",
		"(1, '', 'ROLLBACK', '', '', 0, 'a', 'r', 'w')",
		"(1, '', 'mode', '', '', 0, 'a', 'r', 'w')",
		"(1, '', 'mode', 'off', '', 0, 'a', 'r', 'w')",
		"(1, '', 'rollback', 'observe', '', 0, 'a', 'r', 'w')",
		"(1, '', 'rollback', '', 'off', 0, 'a', 'r', 'w')",
		"(1, '', 'rollback', '', '', 2, 'a', 'r', 'w')",
		"(1, '', 'rollback', '', '', 'yes', 'a', 'r', 'w')",
		"(-1, '', 'rollback', '', '', 0, 'a', 'r', 'w')",
		"('now', '', 'rollback', '', '', 0, 'a', 'r', 'w')",
		"(1.5, '', 'rollback', '', '', 0, 'a', 'r', 'w')",
		"(9223372036854775807, '', 'rollback', '', '', 0, 'a', 'r', 'w')",
		"(1, x'ff', 'rollback', '', '', 0, 'a', 'r', 'w')",
		"(1, '', 'rollback', '', '', 0, CAST(x'c3' AS TEXT), 'r', 'w')",
		"(1, '', 'rollback', '', '', 0, 'a', '" + strings.Repeat("r", maxReason+1) + "', 'w')",
		"(1, '" + strings.Repeat("p", maxName+1) + "', 'rollback', '', '', 0, 'a', 'r', 'w')",
	}
	for _, row := range nonsense {
		if _, err := s.writer.ExecContext(t.Context(), columns+row); err != nil {
			t.Fatal(row, err)
		}
	}
	mustQueueRequest(t, s, control.ModeRequest{Action: control.Rollback, Actor: "anna"})
	got, err := s.QueuedRequests(t.Context(), 0)
	if err != nil || len(got) != len(nonsense)+1 {
		t.Fatalf("%d requests, %v", len(got), err)
	}
	for i, row := range nonsense {
		if diff := cmp.Diff(control.QueuedRequest{Number: int64(i + 1)}, got[i]); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", row, diff)
		}
	}
	if last := got[len(nonsense)]; last.Mode.Action != control.Rollback {
		t.Errorf("the good one after them: %+v", last)
	}
}

func testSeen(t *testing.T, s *Store) {
	for range 5 {
		mustQueueRequest(t, s, control.ModeRequest{Action: control.Rollback})
	}
	for _, tt := range []struct {
		seen int64
		left int
	}{{0, 5}, {3, 2}, {2, 2}, {0, 2}, {-7, 2}, {4, 1}, {5, 0}} {
		mustRecord(t, s, tt.seen)
		got, err := s.QueuedRequests(t.Context(), 0)
		if err != nil || len(got) != tt.left {
			t.Errorf("after seen %d: %d requests left, %v, want %d", tt.seen, len(got), err, tt.left)
		}
	}
}

// testNumbersExhausted: a request must get a number above all that were dealt with.
func testNumbersExhausted(t *testing.T, s *Store) {
	mustRecord(t, s, 41)
	if n := mustQueueRequest(t, s, control.ModeRequest{Action: control.Rollback}); n != 42 {
		t.Errorf("number %d, want 42: a lower one would never be seen", n)
	}
	if n := mustQueueRequest(t, s, control.ModeRequest{Action: control.Restore}); n != 43 {
		t.Errorf("then number %d, want 43", n)
	}
	got, err := s.QueuedRequests(t.Context(), 0)
	if err != nil || len(got) != 2 || got[0].Mode.Action != control.Rollback || got[1].Mode.Action != control.Restore {
		t.Errorf("%v, %v", got, err)
	}
}

func testManyRequests(t *testing.T, s *Store) {
	for range maxRequests + 5 {
		mustQueueRequest(t, s, control.ModeRequest{Action: control.Rollback})
	}
	first, err := s.QueuedRequests(t.Context(), 0)
	if err != nil || len(first) != maxRequests {
		t.Fatalf("%d, %v", len(first), err)
	}
	rest, err := s.QueuedRequests(t.Context(), first[len(first)-1].Number)
	if err != nil || len(rest) != 5 {
		t.Errorf("%d, %v, want the 5 that are left", len(rest), err)
	}
}

func testConcurrent(t *testing.T, s *Store) {
	const writers, each = 4, 25
	var wg sync.WaitGroup
	problems := make(chan error, 3*writers*each)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				c := newModeChange(fmt.Sprintf("p%d", w), admission.Modes()[i%3])
				problems <- s.RecordChanges(t.Context(), []control.ModeChange{c}, int64(i))
				_, err := s.ModeStates(t.Context())
				problems <- err
				_, _, err = s.ModeChanges(t.Context(), control.AuditQuery{Pool: c.Pool})
				problems <- err
			}
		})
	}
	wg.Wait()
	close(problems)
	for err := range problems {
		if err != nil {
			t.Fatal(err)
		}
	}
	if c := allModeChanges(t, s); len(c) != writers*each {
		t.Errorf("%d changes, want %d", len(c), writers*each)
	}
	standings, err := s.ModeStates(t.Context())
	if err != nil || len(standings) != writers {
		t.Fatalf("%v, %v", standings, err)
	}
	for _, got := range standings {
		if want := admission.Modes()[(each-1)%3]; got.Mode != want {
			t.Errorf("pool %s stands at %s, want %s", got.Pool, got.Mode, want)
		}
	}
}

func testEnded(t *testing.T, s *Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.RecordChanges(ctx, []control.ModeChange{newModeChange("p", admission.Observe)}, 0); !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("record: %v, want ErrBusy and the reason", err)
	}
	if _, err := s.ModeStates(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("standings: %v", err)
	}
	mustRecord(t, s, 0, newModeChange("p", admission.Observe)) // and nothing is broken by it
	if c := allModeChanges(t, s); len(c) != 1 {
		t.Errorf("%d changes, want the one that had time", len(c))
	}
}

func testClosed(t *testing.T, s *Store) {
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	for range 3 {
		closeStore(t, s)
	}
	_, standings := s.ModeStates(t.Context())
	_, requests := s.QueuedRequests(t.Context(), 0)
	_, _, changes := s.ModeChanges(t.Context(), control.AuditQuery{})
	for name, err := range map[string]error{
		"record": s.RecordChanges(t.Context(), nil, 1), "standings": standings, "requests": requests, "changes": changes,
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}
