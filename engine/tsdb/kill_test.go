package tsdb

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

const killDir = "HEADGATE_TEST_SAMPLES_DIR"

// TestWriteUntilKilled is the other process of TestKillKeepsWhatWasCommitted. By
// itself it writes a few samples, and says which.
func TestWriteUntilKilled(t *testing.T) {
	dir, n := os.Getenv(killDir), 1_000_000
	if dir == "" {
		dir, n = t.TempDir(), 10
	}
	now := epoch
	db, err := Open(Options{Dir: dir, Log: newFixtureLog(), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range n {
		if err := db.Append(t.Context(), now, []Sample{sample(float64(i), "headgate_x")}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("committed", i)
		now = now.Add(time.Second)
	}
}

// What was committed before a kill -9 is there at the next start.
func TestKillKeepsWhatWasCommitted(t *testing.T) {
	r := newFixture(t, nil)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, stop := range []int{3, 500} {
		if err := os.RemoveAll(r.o.Dir); err != nil {
			t.Fatal(err)
		}
		last := killed(t, r.o.Dir, stop)
		r.now = epoch.Add(time.Duration(last+1) * time.Second)
		r.open()
		if got := r.signal("headgate_x"); got.V < float64(last) || got.Quality != 0 {
			t.Errorf("killed after sample %d: the newest is %+v", last, got)
		}
		if got := r.signal("count_over_time(headgate_x[1h])"); got.V < float64(last+1) {
			t.Errorf("killed after sample %d: %+v are left", last, got)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killed runs the other process and kills it after some sample; it returns the
// latest that it said was committed.
func killed(t *testing.T, dir string, stop int) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriteUntilKilled$")
	cmd.Env = append(os.Environ(), killDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var word, number string
		if n, _ := fmt.Sscan(lines.Text(), &word, &number); n != 2 || word != "committed" {
			continue
		}
		if last, err = strconv.Atoi(number); err != nil {
			t.Fatal(err)
		}
		if last == stop {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the other process ended by itself")
	}
	return last
}
