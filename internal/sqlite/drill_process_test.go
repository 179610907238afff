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
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	s, err := Open(ctx, testOptions(args[0]))
	if err != nil {
		return err
	}
	d := s.Drills()
	if _, err := d.CloseInterrupted(ctx, time.Now()); err != nil {
		return err
	}
	for n := 0; ; n++ {
		r := newManualRun(newID(), "burst")
		if r.Fence, err = d.Claim(ctx, time.Now(), r, lease); err != nil {
			return err
		}
		fmt.Println("claimed", r.ID)
		for points := range 3 {
			if err := d.Save(ctx, time.Now(), withProgress(r, 300*points)); err != nil {
				return err
			}
		}
		if err := d.Save(ctx, time.Now(), withVerdict(withProgress(r, 700), drill.Passed)); err != nil {
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
	for round := range rounds(8, 3) {
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
		for _, line := range c.remainingLines() {
			word, id, _ := strings.Cut(line, " ")
			said[id] = word
		}
		_ = c.cmd.Wait()
		checkDrills(t, dir, said)
	}
}

func checkDrills(t *testing.T, dir string, said map[string]string) {
	t.Helper()
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	var holder string
	if err := s.reader.QueryRowContext(t.Context(), "SELECT run FROM drill_lock").Scan(&holder); err != nil {
		t.Fatal(err)
	}
	open := listRunIDs(t, s, drill.Query{Running: true})
	if holder == "" && len(open) > 0 || holder != "" && !slices.Equal(open, []string{holder}) {
		t.Fatalf("%q holds the lock, and %v have not ended", holder, open)
	}
	for id, word := range said {
		r := mustLoadRun(t, s, id)
		if word == "ended" && (r.Verdict != drill.Passed || len(r.Series) != 700) {
			t.Fatalf("the end of %s was acknowledged, and it is %s %s", id, r.Status, r.Verdict)
		}
	}
	interrupted, err := s.Drills().CloseInterrupted(t.Context(), time.Now())
	if err != nil || len(interrupted) != len(open) {
		t.Fatalf("%d runs were interrupted, %v, of %d", len(interrupted), err, len(open))
	}
	if left := listRunIDs(t, s, drill.Query{Running: true}); len(left) > 0 {
		t.Fatalf("%v have not ended", left)
	}
	r := mustClaim(t, s, time.Now(), newManualRun(newID(), "overload"))
	mustSaveRun(t, s, time.Now(), withVerdict(r, drill.Passed))
}

// openShared opens a record beside others, without the lock on its directory, as
// processes would that share a database.
func openShared(ctx context.Context, dir string) (*Store, error) {
	schema, err := programSchema()
	if err != nil {
		return nil, err
	}
	s := newStore(testOptions(dir), schema)
	s.path = filepath.Join(dir, databaseName)
	return s, s.openFile(ctx)
}

// childClaims claims and ends each occurrence that it can get, and says which.
func childClaims(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	s, err := openShared(ctx, args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	for n := 0; n < occurrences; {
		r := newScheduledRun(newID(), "burst")
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
			if err := s.Drills().Save(ctx, time.Now(), withVerdict(r, drill.Passed)); err != nil {
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
	closeStore(t, openTestStore(t, dir))
	var cs []*child
	for range 3 {
		cs = append(cs, start(t, "claims", dir))
	}
	for _, c := range cs {
		c.wantLine("ready")
	}
	for _, c := range cs {
		if _, err := c.in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
	}
	got, fences := map[int]int{}, map[int64]int{}
	for _, c := range cs {
		for _, line := range c.remainingLines() {
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
	s := openTestStore(t, dir)
	if all := listRunIDs(t, s, drill.Query{Verdicts: []drill.Verdict{drill.Passed}}); len(all) != occurrences {
		t.Errorf("%d runs are recorded", len(all))
	}
}

// TestInterruptBeside: without a lock on the directory, the run of another is left
// alone until its lease has run out.
func TestInterruptBeside(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	mustClaim(t, s, noon, newManualRun("r-1", "burst"))
	other, err := openShared(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, other) })
	if got, err := other.Drills().CloseInterrupted(t.Context(), noon.Add(lease-1)); err != nil || len(got) != 0 {
		t.Errorf("within its lease: %v, %v", got, err)
	}
	if got, err := other.Drills().CloseInterrupted(t.Context(), noon.Add(lease)); err != nil || len(got) != 1 || got[0].ID != "r-1" {
		t.Errorf("after it: %v, %v", got, err)
	}
	if err := s.Drills().Save(t.Context(), noon, withVerdict(newManualRun("r-1", "burst"), drill.Passed)); !errors.Is(err, drill.ErrLockLost) {
		t.Errorf("it came back: %v", err)
	}
}
