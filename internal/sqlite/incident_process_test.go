package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"headgate/alerts"
	"headgate/engine"
)

// childIncidents opens and continues incidents until it is killed, and says which
// step of which was acknowledged. A deliverer works beside it.
func childIncidents(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	s, err := Open(ctx, testOptions(args[0]))
	if err != nil {
		return err
	}
	go deliverAll(ctx, s.Outbox())
	for {
		id := newID()
		for seq := 1; seq <= 3; seq++ {
			if err := s.SaveBatch(ctx, childBatch(id, seq), planPost); err != nil {
				return err
			}
			fmt.Println(id, seq)
		}
	}
}

// deliverAll marks what is pending as sent.
func deliverAll(ctx context.Context, o *Outbox) {
	for ctx.Err() == nil {
		ds, err := o.Pending(ctx, 5)
		if err != nil {
			continue
		}
		var c alerts.Changes
		for _, d := range ds {
			d.State, d.Ref = alerts.Sent, alerts.Ref{Channel: "C1", TS: d.Incident}
			c.Update = append(c.Update, d)
			c.Threads = append(c.Threads, alerts.Thread{Incident: d.Incident, Destination: d.Destination, Ref: d.Ref})
		}
		_ = o.Save(ctx, c)
	}
}

// childBatch is a step of an incident, which ends with the third.
func childBatch(id string, seq int) engine.Batch {
	b := newIncidentBatch(id)
	b.Incidents[0].Seq, b.Events[0] = seq, fullEvent(id, seq)
	b.States[0].LastResolved = noon.Add(time.Duration(seq) * time.Second)
	if seq == 3 {
		b.Incidents[0] = ended(b.Incidents[0], noon)
	}
	return b
}

// TestKillIncidents: whenever kill -9 falls, what was acknowledged is there, every
// event has its delivery, and incidents and states are where their events led.
func TestKillIncidents(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[string]int{}
	for round := range rounds(10, 4) {
		c := start(t, "incidents", dir)
		for range 1 + 4*round { // a different moment each time
			if !c.lines.Scan() {
				t.Fatalf("round %d: the child ended by itself", round)
			}
			acknowledge(t, acknowledged, c.lines.Text())
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, line := range c.remainingLines() {
			acknowledge(t, acknowledged, line)
		}
		_ = c.cmd.Wait()
		checkIncidents(t, dir, acknowledged)
	}
}

func acknowledge(t *testing.T, acknowledged map[string]int, line string) {
	t.Helper()
	id, seq, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(seq)
	if err != nil {
		t.Fatalf("the child said %q", line)
	}
	acknowledged[id] = n
}

func checkIncidents(t *testing.T, dir string, acknowledged map[string]int) {
	t.Helper()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	for id, seq := range acknowledged {
		st := mustLoadIncident(t, s, id)
		checkHistory(t, st)
		if st.Incident.Seq < seq || st.Incident.Open() != (st.Incident.Seq < 3) {
			t.Fatalf("step %d of %s was acknowledged, and it is at %d, open %v", seq, id, st.Incident.Seq, st.Incident.Open())
		}
		for _, d := range st.Deliveries {
			checkSent(t, s, d)
		}
	}
	saved := mustLoad(t, s)
	last := saved.Incidents[len(saved.Incidents)-1] // the state names it
	if st := saved.States; len(st) != 1 || !st[0].LastResolved.Equal(noon.Add(time.Duration(last.Seq)*time.Second)) {
		t.Fatalf("the state is %+v, its incident at %d", st, last.Seq)
	}
}

// checkSent: a delivery was sent together with its root, or not at all.
func checkSent(t *testing.T, s *Store, d alerts.Delivery) {
	t.Helper()
	ref, err := s.Outbox().Thread(t.Context(), d.Incident, d.Destination)
	if err != nil || d.State == alerts.Sent && ref != d.Ref || d.State != alerts.Sent && d.State != alerts.Queued {
		t.Fatalf("delivery %+v, its message at %v, %v", d, ref, err)
	}
}

// TestHeldFileIncidents: another process holds the file. The batch is refused in
// time and can be repeated, and what is there can be read.
func TestHeldFileIncidents(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	saveBatch(t, s, newIncidentBatch("i-1"), planPost)
	c := start(t, "exclusive", dir)
	c.wantLine("ready")
	if err := s.SaveBatch(withDeadline(t, 300*time.Millisecond), newIncidentBatch("i-2"), planPost); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	sent := newPost("i-1", 1, alerts.ToPage, alerts.Sent)
	if err := s.Outbox().Save(withDeadline(t, 300*time.Millisecond), alerts.Changes{Update: []alerts.Delivery{sent}}); !errors.Is(err, ErrBusy) {
		t.Errorf("outbox: %v, want ErrBusy", err)
	}
	if ds, err := s.Outbox().Pending(t.Context(), 10); err != nil || len(ds) != 1 {
		t.Errorf("%d deliveries, %v, want one", len(ds), err)
	}
	c.kill()
	saveBatch(t, s, newIncidentBatch("i-2"), planPost)
	if ds, err := s.Outbox().Pending(t.Context(), 10); err != nil || len(ds) != 2 {
		t.Errorf("%d deliveries, %v, want two", len(ds), err)
	}
}

// TestFullIncidents: without room nothing of a batch is there, and with room again
// the same batch is recorded.
func TestFullIncidents(t *testing.T) {
	for kind, make := range storeKinds {
		t.Run(kind, func(t *testing.T) {
			s := make(t)
			pages := 0
			if err := s.writer.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
				t.Fatal(err)
			}
			room := func(pages int) {
				if _, err := s.writer.ExecContext(t.Context(), "PRAGMA max_page_count = "+strconv.Itoa(pages)); err != nil {
					t.Fatal(err)
				}
			}
			room(pages + 20)
			var refused engine.Batch
			var err error
			kept := 0
			for ; err == nil && kept < 10_000; kept++ {
				refused = childBatch(fmt.Sprintf("i-%d", kept), 1)
				err = s.SaveBatch(t.Context(), refused, planPost)
			}
			kept--
			if !errors.Is(err, ErrFull) || kept == 0 {
				t.Fatalf("%v after %d, want ErrFull", err, kept)
			}
			if n := countRows(t, s); n != 3*kept+1 { // incident, event and delivery of each, one state
				t.Errorf("%d rows of %d batches", n, kept)
			}
			room(pages + 1000)
			saveBatch(t, s, refused, planPost)
			checkHistory(t, mustLoadIncident(t, s, refused.Incidents[0].ID))
		})
	}
}

// TestFullDiskIncidents: the same on a real file system without room.
func TestFullDiskIncidents(t *testing.T) {
	dir, ok := smallDisk(t)
	if !ok {
		return
	}
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	fillDisk(t, filepath.Join(dir, "stuffing"))
	kept := 0
	for err == nil && kept < 10_000 {
		if err = s.SaveBatch(t.Context(), childBatch(fmt.Sprintf("i-%d", kept), 1), planPost); err == nil {
			kept++
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("%v after %d, want ErrFull", err, kept)
	}
	if ds, err := s.Outbox().Pending(t.Context(), maxPending); err != nil || len(ds) != kept || len(mustLoad(t, s).Incidents) != kept {
		t.Errorf("%d deliveries of %d incidents, %v", len(ds), kept, err)
	}
}
