package tsdb

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newFixtureLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestOpenRefusesInvalidOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no log":             {},
		"negative interval":  {Log: newFixtureLog(), Interval: -1},
		"negative retention": {Log: newFixtureLog(), Retention: -1},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// Without a folder there is a temporary one, which goes with Close.
func TestTemporaryFolderGoes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	db, err := Open(Options{Log: newFixtureLog()})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(os.TempDir() + "/headgate-samples-*"); len(left) != 1 {
		t.Fatalf("temporary folders: %q, want one", left)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(os.TempDir() + "/headgate-samples-*"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A folder that another DB has is not repaired: it is not broken.
func TestOpenRefusesAFolderInUse(t *testing.T) {
	r := newFixture(t, nil)
	r.appendSecond(sample(1, "headgate_x"))
	if db, err := Open(r.o); err == nil {
		db.Close()
		t.Fatal("opened twice")
	}
	if got := r.signal("headgate_x"); got != validValue(1) {
		t.Errorf("after the attempt the sample is %+v, want 1", got)
	}
}

// What was committed is there after a restart, and a gap stays a gap.
func TestSamplesSurviveRestart(t *testing.T) {
	r := newFixture(t, nil)
	for range 20 {
		r.appendSecond(sample(7, "headgate_x"))
	}
	r.restart(5 * time.Second)
	if got := r.signal("count_over_time(headgate_x[1m])"); got != validValue(20) {
		t.Errorf("samples: %+v, want 20", got)
	}
	r.restart(time.Hour)
	if got := r.signal("headgate_x"); got != missing {
		t.Errorf("after an hour the signal is %+v, want missing", got)
	}
}

// The end of a log that was cut off or scribbled over costs that end, not a start.
func TestCorruptWALIsRepaired(t *testing.T) {
	r := newFixture(t, nil)
	for range 100 {
		r.appendSecond(sample(1, "headgate_x"))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	corrupt(t, filepath.Join(r.o.Dir, "wal"))
	r.open()
	r.appendSecond(sample(2, "headgate_x"))
	if got := r.signal("headgate_x"); got != validValue(2) || r.Health().Err != nil {
		t.Errorf("after the repair: %+v, %+v; want 2", got, r.Health())
	}
}

// corrupt overwrites the middle of the largest file below a folder.
func corrupt(t *testing.T, dir string) {
	t.Helper()
	var largest string
	size := int64(0)
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && info.Size() > size {
			largest, size = path, info.Size()
		}
		return err
	})
	if err != nil || largest == "" {
		t.Fatalf("nothing to scribble over in %s: %v", dir, err)
	}
	f, err := os.OpenFile(largest, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("scribble", 32)), size/3); err != nil {
		t.Fatal(err)
	}
}

// A block that cannot be read is moved aside, and the others are kept.
func TestUnreadableBlockIsQuarantined(t *testing.T) {
	r := newFixture(t, nil)
	for range 10 * 60 { // two and a half hours, at 15 s
		r.appendSecond(sample(1, "headgate_x"))
		r.now = r.now.Add(14 * time.Second)
	}
	if err := r.tsdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocks := r.tsdb.Blocks()
	if len(blocks) < 2 {
		t.Fatalf("%d blocks, want at least two", len(blocks))
	}
	bad := blocks[0].Dir()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(bad, "index"), 10); err != nil {
		t.Fatal(err)
	}
	r.open()
	h := r.Health()
	if h.Err != nil || h.Quarantined == "" || !strings.Contains(r.log.String(), "quarantined") {
		t.Fatalf("health %+v, log:\n%s", h, r.log)
	}
	if _, err := os.Stat(filepath.Join(h.Quarantined, filepath.Base(bad))); err != nil {
		t.Errorf("the bad block: %v", err)
	}
	r.appendSecond(sample(1, "headgate_x"))
	if got := r.signal("count_over_time(headgate_x[3h])"); got.V < 200 {
		t.Errorf("samples: %+v, want those of the other blocks", got)
	}
}

// A folder that cannot be used at all is moved aside as a whole.
func TestUnreadableFolderIsQuarantined(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "samples")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "wal"), []byte("not a folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := dir + ".bad-19990101T000000"
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, func(o *Options) { o.Dir = dir })
	r.appendSecond(sample(1, "headgate_x"))
	if got := r.signal("headgate_x"); got != validValue(1) {
		t.Errorf("got %+v, want 1", got)
	}
	if got, err := os.ReadFile(filepath.Join(r.Health().Quarantined, "wal")); err != nil || string(got) != "not a folder" {
		t.Errorf("what was moved aside: %q, %v", got, err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what was moved aside years ago is still there")
	}
}

// When there is nowhere to write, the process goes on with missing signals, and it
// is tried again.
func TestUnwritableFolderGivesMissing(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(parent, nil, 0o600); err != nil { // a file where a folder should be
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	r := newFixture(t, func(o *Options) { o.Dir, o.Registerer = filepath.Join(parent, "samples"), reg })
	if err := r.Append(t.Context(), r.now, []Sample{sample(1, "headgate_x")}); err == nil {
		t.Fatal("written to nowhere")
	}
	if h := r.Health(); h.Err == nil || !h.Since.Equal(epoch) {
		t.Errorf("health %+v, want an error since the start", h)
	}
	if got := r.signal("headgate_x"); got != missing {
		t.Errorf("got %+v, want missing", got)
	}
	if _, err := r.QueryRange(t.Context(), "headgate_x", epoch, epoch, time.Second); err == nil {
		t.Error("a range of nowhere")
	}
	if err := os.Remove(parent); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(reopenInterval)
	r.appendSecond(sample(1, "headgate_x"))
	if got := r.signal("headgate_x"); got != validValue(1) || r.Health().Err != nil {
		t.Errorf("once there is a folder: %+v, %+v; want 1", got, r.Health())
	}
	if !strings.Contains(r.log.String(), "written again") {
		t.Errorf("the log does not say so:\n%s", r.log)
	}
}

// A clock that has gone back by little is waited for; by much, and the samples of
// the future are moved aside.
func TestClockThatWentBack(t *testing.T) {
	r := newFixture(t, nil)
	for range 30 {
		r.appendSecond(sample(1, "headgate_x"))
	}
	r.restart(-20 * time.Second)
	if err := r.Append(t.Context(), r.now, []Sample{sample(1, "headgate_x")}); err == nil {
		t.Fatal("written into the past")
	}
	if h := r.Health(); h.Quarantined != "" || h.Err == nil {
		t.Errorf("20 s back: %+v, want an error and nothing moved", h)
	}
	r.now = r.now.Add(25 * time.Second)
	r.appendSecond(sample(1, "headgate_x"))
	if err := r.Health().Err; err != nil {
		t.Errorf("once time has caught up: %v", err)
	}
	r.restart(-time.Hour)
	r.appendSecond(sample(3, "headgate_x"))
	if got := r.signal("headgate_x"); got != validValue(3) || r.Health().Quarantined == "" {
		t.Errorf("an hour back: %+v, %+v; want 3, and something moved aside", got, r.Health())
	}
}

// After Close nothing is written and nothing answered, and nothing breaks.
func TestClosed(t *testing.T) {
	r := newFixture(t, nil)
	r.appendSecond(sample(1, "headgate_x"))
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.signal("headgate_x"); got != missing {
		t.Errorf("got %+v, want missing", got)
	}
	if err := r.Append(t.Context(), r.now, nil); err == nil {
		t.Error("written after Close")
	}
	if r.Health().Err == nil {
		t.Error("closed, and well")
	}
}
