package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// occurrences is how many due times processes compete for.
const occurrences = 25

// childDrills runs drills until it is killed, and says what was acknowledged of
// which.
func childDrills(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	s, err := Open(ctx, options(args[0]))
	if err != nil {
		return err
	}
	d := s.Drills()
	if _, err := d.Interrupt(ctx, time.Now()); err != nil {
		return err
	}
	for n := 0; ; n++ {
		r := byHand(newID(), "burst")
		if r.Fence, err = d.Claim(ctx, time.Now(), r, lease); err != nil {
			return err
		}
		fmt.Println("claimed", r.ID)
		for points := range 3 {
			if err := d.Save(ctx, time.Now(), underWay(r, 300*points)); err != nil {
				return err
			}
		}
		if err := d.Save(ctx, time.Now(), over(underWay(r, 700), drill.Passed)); err != nil {
			return err
		}
		fmt.Println("ended", r.ID)
	}
}

// TestKillDrills: whenever kill -9 falls, what was acknowledged is there, at most
// one run has not ended, and that one holds the lock. After the next start none
// is open, and drills can run at once.
func TestKillDrills(t *testing.T) {
	dir := t.TempDir()
	said := map[string]string{}
	rounds := 8
	if raceEnabled { // a child takes its time then
		rounds = 3
	}
	for round := range rounds {
		c := start(t, "drills", dir)
		for range 1 + 3*round { // a different moment each time
			if !c.lines.Scan() {
				t.Fatalf("round %d: the child ended by itself", round)
			}
			word, id, _ := strings.Cut(c.lines.Text(), " ")
			said[id] = word
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, line := range c.rest() {
			word, id, _ := strings.Cut(line, " ")
			said[id] = word
		}
		_ = c.cmd.Wait()
		checkDrills(t, dir, said)
	}
}

func checkDrills(t *testing.T, dir string, said map[string]string) {
	t.Helper()
	s, err := Open(t.Context(), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	var holder string
	if err := s.reader.QueryRowContext(t.Context(), "SELECT run FROM drill_lock").Scan(&holder); err != nil {
		t.Fatal(err)
	}
	open := listed(t, s, drill.Query{Running: true})
	if holder == "" && len(open) > 0 || holder != "" && !slices.Equal(open, []string{holder}) {
		t.Fatalf("%q holds the lock, and %v have not ended", holder, open)
	}
	for id, word := range said {
		r := run(t, s, id)
		if word == "ended" && (r.Verdict != drill.Passed || len(r.Series) != 700) {
			t.Fatalf("the end of %s was acknowledged, and it is %s %s", id, r.Status, r.Verdict)
		}
	}
	interrupted, err := s.Drills().Interrupt(t.Context(), time.Now())
	if err != nil || len(interrupted) != len(open) {
		t.Fatalf("%d runs were interrupted, %v, of %d", len(interrupted), err, len(open))
	}
	if left := listed(t, s, drill.Query{Running: true}); len(left) > 0 {
		t.Fatalf("%v have not ended", left)
	}
	r := claim(t, s, time.Now(), byHand(newID(), "overload"))
	saveRun(t, s, time.Now(), over(r, drill.Passed))
}

// shared opens a record beside others, without the lock on its directory, as
// processes would that share a database.
func shared(ctx context.Context, dir string) (*Store, error) {
	s := newStore(options(dir), embedded())
	s.path = filepath.Join(dir, databaseName)
	return s, s.openFile(ctx)
}

// childClaims claims and ends each occurrence that it can get, and says which.
func childClaims(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	s, err := shared(ctx, args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	for n := 0; n < occurrences; {
		r := claimed(newID(), "burst")
		r.Scheduled = noon.Add(time.Duration(n) * time.Minute)
		r.Fence, err = s.Drills().Claim(ctx, time.Now(), r, time.Minute)
		switch {
		case errors.Is(err, drill.ErrClaimed):
			n++
		case errors.Is(err, drill.ErrBusy), errors.Is(err, ErrBusy):
		case err != nil:
			return err
		default:
			fmt.Println(n, r.Fence)
			if err := s.Drills().Save(ctx, time.Now(), over(r, drill.Passed)); err != nil {
				return err
			}
		}
	}
	return s.release()
}

// TestClaimsOfMany: processes that share a record never run an occurrence twice,
// nor two at once, and none is left out.
func TestClaimsOfMany(t *testing.T) {
	dir := t.TempDir()
	closed(t, openIn(t, dir))
	var cs []*child
	for range 3 {
		cs = append(cs, start(t, "claims", dir))
	}
	for _, c := range cs {
		c.expect("ready")
	}
	for _, c := range cs {
		if _, err := c.in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
	}
	got, fences := map[int]int{}, map[int64]int{}
	for _, c := range cs {
		for _, line := range c.rest() {
			var n int
			var fence int64
			if _, err := fmt.Sscan(line, &n, &fence); err != nil {
				t.Fatalf("a child said %q", line)
			}
			got[n]++
			fences[fence]++
		}
		if err := c.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	for n := range occurrences {
		if got[n] != 1 {
			t.Errorf("occurrence %d was run %d times", n, got[n])
		}
	}
	if len(got) != occurrences || len(fences) != occurrences {
		t.Errorf("%d occurrences under %d fences", len(got), len(fences))
	}
	s := openIn(t, dir)
	if all := listed(t, s, drill.Query{Verdicts: []drill.Verdict{drill.Passed}}); len(all) != occurrences {
		t.Errorf("%d runs are recorded", len(all))
	}
}

// TestInterruptBeside: without a lock on the directory, the run of another is left
// alone until its lease has run out.
func TestInterruptBeside(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	claim(t, s, noon, byHand("r-1", "burst"))
	other, err := shared(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, other) })
	if got, err := other.Drills().Interrupt(t.Context(), noon.Add(lease-1)); err != nil || len(got) != 0 {
		t.Errorf("within its lease: %v, %v", got, err)
	}
	if got, err := other.Drills().Interrupt(t.Context(), noon.Add(lease)); err != nil || len(got) != 1 || got[0].ID != "r-1" {
		t.Errorf("after it: %v, %v", got, err)
	}
	if err := s.Drills().Save(t.Context(), noon, over(byHand("r-1", "burst"), drill.Passed)); !errors.Is(err, drill.ErrFenced) {
		t.Errorf("it came back: %v", err)
	}
}
