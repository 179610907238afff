package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

const rollbackIncident = "flip-1"

// tracedStore is a Store that says each use a flip makes of it, before and after, and
// an engine whose one incident asks for a rollback for ever.
type tracedStore struct {
	*Store
	report func(what string)

	mu  sync.Mutex
	seq int
}

// traced says that something is about to be written, writes it, and says that it was.
func (r *tracedStore) traced(what string, write func() error) error {
	r.report("before " + what)
	err := write()
	r.report("after " + what)
	return err
}

func (r *tracedStore) RecordChanges(ctx context.Context, changes []control.ModeChange, seen int64) error {
	return r.traced("change", func() error { return r.Store.RecordChanges(ctx, changes, seen) })
}

func (r *tracedStore) SaveRollbackState(ctx context.Context, g control.RollbackState) error {
	return r.traced("guard "+string(g.Phase), func() error { return r.Store.SaveRollbackState(ctx, g) })
}

// Append implements what a Keeper wants of an audit, at once and on the disk.
func (r *tracedStore) Append(e control.AuditEntry) {
	e.Writer = "tester"
	_ = r.traced("entry", func() error { return r.Store.AppendAudit(context.Background(), e) })
}

func (r *tracedStore) Annotate(ctx context.Context, m engine.Annotation) ([]engine.Incident, error) {
	r.mu.Lock()
	r.seq++
	e := engine.Event{ID: newID(), Incident: rollbackIncident, Seq: r.seq, Kind: m.Kind, By: m.By, Text: m.Text, At: time.Now()}
	r.mu.Unlock()
	return nil, r.traced("remark", func() error { return r.SaveBatch(ctx, engine.Batch{Events: []engine.Event{e}}, nil) })
}

func (r *tracedStore) Incidents() []engine.Incident {
	return []engine.Incident{{ID: rollbackIncident, Key: engine.Key{Rule: "faulty", Pool: "p"}, Level: engine.LevelPage, Opened: time.Now().Add(-time.Minute)}}
}

func (r *tracedStore) States() []engine.RuleStatus {
	key := engine.Key{Rule: "faulty", Pool: "p"}
	return []engine.RuleStatus{{
		Rule:  engine.Rule{Name: "faulty", Pool: "p", Action: "rollback", Page: engine.Threshold{At: 1, Set: true}},
		State: engine.State{Key: key, Phase: engine.Firing}, Value: engine.Value{V: 3},
	}}
}

// start runs modes and guard until ctx ends. The gate that it returns is that of the
// one pool.
func (r *tracedStore) start(ctx context.Context) (*admission.Gate, func(), error) {
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, nil, err
	}
	gate, err := admission.New(admission.Config{Workers: 1, Policy: admission.Threshold{MaxQueueAge: time.Second, DepthMultiple: 2}, QueueLimit: 9, AssumedService: time.Second})
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	keeper, err := control.NewAutoRollback(control.AutoRollbackConfig{
		Settings: control.AutoRollbackSettings{Auto: true, MaxPerDay: 3, Cooldown: time.Minute, ManualHold: time.Hour}, Journal: r, Audit: r, Log: log, Metrics: metrics,
	})
	if err != nil {
		return nil, nil, err
	}
	modes := control.NewController(control.Config{Journal: r, Writer: "tester", Log: log, Metrics: metrics, OnApplied: keeper.OnApplied, OnRecorded: keeper.OnRecorded})
	if err := modes.Load(ctx); err != nil {
		return nil, nil, err
	}
	modes.Add(time.Now(), "p", gate)
	if err := keeper.Load(ctx, modes); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { modes.Run(ctx) })
	running.Go(func() {
		for !modes.Recorded("p") && ctx.Err() == nil { // so that the flip is recorded by itself
			time.Sleep(time.Millisecond)
		}
		keeper.Wake()
		keeper.Run(ctx, r)
	})
	return gate, func() { cancel(); running.Wait() }, nil
}

// childRollback rolls back, and stands still at the use of the disk with that number,
// for ever: there it is killed.
func childRollback(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	still, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := Open(ctx, testOptions(args[0]))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	n := 0
	r := &tracedStore{Store: s, report: func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if n == still {
			fmt.Println("still", what)
			<-ctx.Done()
			os.Exit(2)
		}
		n++
	}}
	_, _, err = r.start(ctx)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return errors.New("it never stood still")
}

// rollbackTrace is what a record says of a flip.
type rollbackTrace struct{ changed, annotated, audited int }

func (f rollbackTrace) String() string {
	return fmt.Sprintf("done %d, announced %d, audited %d", f.changed, f.annotated, f.audited)
}

func readRollbackTrace(t *testing.T, s *Store) (f rollbackTrace) {
	t.Helper()
	a, err := s.Audit(t.Context(), control.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changesOf(a) {
		if c.Via == control.ViaEngine && c.To == admission.PassThrough {
			f.changed++
		}
	}
	for _, e := range entriesOf(a) {
		if e.Result == control.Done {
			f.audited++
		}
	}
	if err := s.writer.QueryRowContext(t.Context(), "SELECT count(*) FROM incident_events WHERE kind = 'mode_changed' AND actor = 'engine'").Scan(&f.annotated); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestKillDuringAutoRollback kills -9 a process before and after every disk access of
// an automatic rollback. The pool is then rolled back or not; a rollback that is
// announced is recorded. The next process completes the missing steps, once.
func TestKillDuringAutoRollback(t *testing.T) {
	for n := range 12 { // the first start and a flip: change, guard, change, entry, remark, guard
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			dir := emptyRecordDir(t)
			c := start(t, "flip", dir, strconv.Itoa(n))
			if !c.lines.Scan() {
				t.Fatal("the child ended")
			}
			where := c.lines.Text()
			c.kill()
			s := openTestStore(t, dir)
			left := readRollbackTrace(t, s)
			if left.changed > 1 || left.annotated > left.changed || left.audited > left.changed {
				t.Fatalf("killed %s: %s", where, left)
			}
			standings, err := s.ModeStates(t.Context())
			if err != nil || left.changed == 1 != (len(standings) == 1 && standings[0].Mode == admission.PassThrough) {
				t.Errorf("killed %s: %s, standings %+v, %v", where, left, standings, err)
			}
			r := &tracedStore{Store: s, seq: left.annotated, report: func(string) {}}
			gate, stop, err := r.start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(10 * time.Second); readRollbackTrace(t, s) != (rollbackTrace{1, 1, 1}); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("killed %s: in the end %s", where, readRollbackTrace(t, s))
				}
			}
			stop()
			guards, err := s.RollbackStates(t.Context())
			if m := gate.Snapshot(time.Now()).Mode; m != admission.PassThrough || err != nil || len(guards) > 1 || len(guards) == 1 && len(guards[0].Rollbacks) > 1 {
				t.Errorf("killed %s: the gate is in %s, guards %+v, %v", where, m, guards, err)
			}
		})
	}
}
