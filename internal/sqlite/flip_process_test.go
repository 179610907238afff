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

const flipIncident = "flip-1"

// flipRig is a Store that says each use a flip makes of it, before and after, and
// an engine whose one incident asks for a rollback for ever.
type flipRig struct {
	*Store
	say func(what string)

	mu  sync.Mutex
	seq int
}

// use says that something is about to be written, writes it, and says that it was.
func (r *flipRig) use(what string, write func() error) error {
	r.say("before " + what)
	err := write()
	r.say("after " + what)
	return err
}

func (r *flipRig) Record(ctx context.Context, changes []control.Change, seen int64) error {
	return r.use("change", func() error { return r.Store.Record(ctx, changes, seen) })
}

func (r *flipRig) SaveGuard(ctx context.Context, g control.Guard) error {
	return r.use("guard "+string(g.State), func() error { return r.Store.SaveGuard(ctx, g) })
}

// Note implements what a Keeper wants of an audit, at once and on the disk.
func (r *flipRig) Note(e control.Entry) {
	e.Writer = "tester"
	_ = r.use("entry", func() error { return r.Store.Note(context.Background(), e) })
}

func (r *flipRig) Remark(ctx context.Context, m engine.Remark) ([]engine.Incident, error) {
	r.mu.Lock()
	r.seq++
	e := engine.Event{ID: newID(), Incident: flipIncident, Seq: r.seq, Kind: m.Kind, By: m.By, Words: m.Words, At: time.Now()}
	r.mu.Unlock()
	return nil, r.use("remark", func() error { return r.SaveBatch(ctx, engine.Batch{Events: []engine.Event{e}}, nil) })
}

func (r *flipRig) Incidents() []engine.Incident {
	return []engine.Incident{{ID: flipIncident, Key: engine.Key{Rule: "faulty", Pool: "p"}, Level: engine.LevelPage, Opened: time.Now().Add(-time.Minute)}}
}

func (r *flipRig) States() []engine.RuleStatus {
	key := engine.Key{Rule: "faulty", Pool: "p"}
	return []engine.RuleStatus{{
		Rule:  engine.Rule{Name: "faulty", Pool: "p", Action: "rollback", Page: engine.Threshold{At: 1, Set: true}},
		State: engine.State{Key: key, Phase: engine.Firing}, Value: engine.Value{V: 3},
	}}
}

// run runs modes and guard until ctx ends. The gate that it returns is that of the
// one pool.
func (r *flipRig) run(ctx context.Context) (*admission.Gate, func(), error) {
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, nil, err
	}
	gate, err := admission.New(admission.Config{Workers: 1, Policy: admission.Threshold{MaxQueueAge: time.Second, DepthMultiple: 2}, QueueLimit: 9, AssumedService: time.Second})
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	keeper, err := control.NewKeeper(control.KeeperConfig{
		Rules: control.GuardConfig{Auto: true, MaxPerDay: 3, Cooldown: time.Minute, HumanLatch: time.Hour}, Journal: r, Audit: r, Log: log, Metrics: metrics,
	})
	if err != nil {
		return nil, nil, err
	}
	modes := control.New(control.Config{Journal: r, Writer: "tester", Log: log, Metrics: metrics, Applied: keeper.Applied, Recorded: keeper.Recorded})
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
		keeper.Kick()
		keeper.Run(ctx, r)
	})
	return gate, func() { cancel(); running.Wait() }, nil
}

// childFlip rolls back, and stands still at the use of the disk with that number,
// for ever: there it is killed.
func childFlip(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	still, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := Open(ctx, options(args[0]))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	n := 0
	r := &flipRig{Store: s, say: func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if n == still {
			fmt.Println("still", what)
			<-ctx.Done()
			os.Exit(2)
		}
		n++
	}}
	_, _, err = r.run(ctx)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return errors.New("it never stood still")
}

// flipped is what a record says of a flip.
type flipped struct{ done, told, noted int }

func (f flipped) String() string {
	return fmt.Sprintf("done %d, told %d, noted %d", f.done, f.told, f.noted)
}

func flipOf(t *testing.T, s *Store) (f flipped) {
	t.Helper()
	a, err := s.Audit(t.Context(), AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range a.Changes {
		if c.Via == control.ViaEngine && c.To == admission.PassThrough {
			f.done++
		}
	}
	for _, e := range a.Entries {
		if e.Ending == control.Done {
			f.noted++
		}
	}
	if err := s.writer.QueryRowContext(t.Context(), "SELECT count(*) FROM incident_events WHERE kind = 'mode_changed' AND actor = 'engine'").Scan(&f.told); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestKillWhileFlipping kills -9 a process at every use that a flip makes of the
// disk, before and after. What is left is a pool that was rolled back, or one that
// was not, and never one that was told of and was not; the next process makes up
// for what is missing, once.
func TestKillWhileFlipping(t *testing.T) {
	for n := range 12 { // the first start and a flip: change, guard, change, entry, remark, guard
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			dir := t.TempDir()
			c := start(t, "flip", dir, strconv.Itoa(n))
			if !c.lines.Scan() {
				t.Fatal("the child ended")
			}
			where := c.lines.Text()
			c.kill()
			s := openIn(t, dir)
			left := flipOf(t, s)
			if left.done > 1 || left.told > left.done || left.noted > left.done {
				t.Fatalf("killed %s: %s", where, left)
			}
			standings, err := s.Standings(t.Context())
			if err != nil || left.done == 1 != (len(standings) == 1 && standings[0].Mode == admission.PassThrough) {
				t.Errorf("killed %s: %s, standings %+v, %v", where, left, standings, err)
			}
			r := &flipRig{Store: s, seq: left.told, say: func(string) {}}
			gate, stop, err := r.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(10 * time.Second); flipOf(t, s) != (flipped{1, 1, 1}); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("killed %s: in the end %s", where, flipOf(t, s))
				}
			}
			stop()
			guards, err := s.Guards(t.Context())
			if m := gate.Snapshot(time.Now()).Mode; m != admission.PassThrough || err != nil || len(guards) > 1 || len(guards) == 1 && len(guards[0].Flips) > 1 {
				t.Errorf("killed %s: the gate is in %s, guards %+v, %v", where, m, guards, err)
			}
		})
	}
}
