package tsdb

import (
	"os/signal"
	"syscall"
	"testing"
	"time"

	"headgate/engine"
)

// A disk that takes no more leaves signals missing; once there is room they come
// back. The limit on the size of files stands for the disk.
func TestFullDiskGivesMissingAndRecovers(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	r := newFixture(t, nil)
	r.appendSecond(sample(1, "headgate_x"))
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for n := 0; n < 2000 && failed < 20; n++ {
		if err := r.Append(t.Context(), r.now, []Sample{sample(float64(n), "headgate_x")}); err != nil {
			failed++
		}
		r.now = r.now.Add(time.Second)
	}
	if failed < 20 || r.Health().Err == nil {
		t.Fatalf("%d failed writes, health %+v: want the disk to be full", failed, r.Health())
	}
	if got := r.signal("headgate_x"); got.Quality != engine.Missing {
		t.Errorf("20 s after the disk was full: %+v, want missing", got)
	}
	restore()
	r.appendSecond(sample(9, "headgate_x"))
	if got := r.signal("headgate_x"); got != validValue(9) || r.Health().Err != nil {
		t.Errorf("with room again: %+v, %+v; want 9", got, r.Health())
	}
	r.restart(time.Second)
	if got := r.signal("headgate_x"); got != validValue(9) {
		t.Errorf("after a restart: %+v, want 9", got)
	}
}
