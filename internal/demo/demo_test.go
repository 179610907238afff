package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/internal/lifecycle"
	"headgate/internal/modelstub"
)

func ignore(State) error { return nil }

// wantEmptyTempDir makes temporary files go to a directory of the test, and checks
// that nothing is left in it.
func wantEmptyTempDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// checkEffect checks the effect of the gate under overload: at any pace what it does,
// and at a kept pace that it helps.
func checkEffect(t *testing.T, s Summary) {
	t.Helper()
	if min(s.Gated.PeakInFlight, s.Ungated.PeakInFlight) <= s.Workers/2 {
		t.Errorf("the endpoints saw up to %d and %d calls at once, want most of %d", s.Gated.PeakInFlight, s.Ungated.PeakInFlight, s.Workers)
	}
	if s.Gated.Refused == 0 || s.Ungated.MaxQueue <= s.Gated.MaxQueue {
		t.Errorf("%d refused with the gate, longest queue %d and %d: want some, and a longer one without",
			s.Gated.Refused, s.Gated.MaxQueue, s.Ungated.MaxQueue)
	}
	if s.Gated.RetryMin < 1 || s.Gated.RetryMax > 59 {
		t.Errorf("Retry-After from %v to %v s, want 1 to 59", s.Gated.RetryMin, s.Gated.RetryMax)
	}
	if !s.Gated.KeptRate || !s.Ungated.KeptRate {
		return
	}
	if s.Gated.Turnaround.P95 > s.SLO || s.Ungated.Turnaround.P95 <= s.SLO {
		t.Errorf("p95 %.1f s with the gate and %.1f s without, want the SLO of %.0f s between", s.Gated.Turnaround.P95, s.Ungated.Turnaround.P95, s.SLO)
	}
	if s.Ungated.Late <= s.Gated.Late || s.Ungated.InTime >= s.Gated.InTime {
		t.Errorf("late %d and %d, in time %d and %d: want both worse without the gate", s.Gated.Late, s.Ungated.Late, s.Gated.InTime, s.Ungated.InTime)
	}
}

func TestRoomForEverything(t *testing.T) {
	wantEmptyTempDir(t)
	o := shortOptions()
	o.Workers = 100
	if s, steady := playUntilOnPace(t, o); steady && !strings.Contains(strings.Join(s.Notes, " "), "nothing to refuse") {
		t.Errorf("notes %q of %+v", s.Notes, s)
	}
}

// playUntilOnPace plays a demo, and plays it again at half the speed when it says itself
// that the machine did not keep the pace: tests share machines. What holds at
// any pace is checked each time; whether the rest can be relied on is returned.
func playUntilOnPace(t *testing.T, o Options) (s Summary, steady bool) {
	t.Helper()
	for range 3 {
		var out, progress, picture bytes.Buffer
		if err := Show(t.Context(), o, Screen{Out: &out, Live: &progress, JSON: true, SVG: &picture}); err != nil {
			t.Fatal(err)
		}
		s = Summary{}
		if err := json.Unmarshal(out.Bytes(), &s); err != nil {
			t.Fatalf("%v in %s", err, out.String())
		}
		checkDemo(t, s)
		checkProgress(t, progress.String())
		if counts := elements(t, picture.String()); counts["polyline"] != 4 {
			t.Errorf("picture has %v", counts)
		}
		if s.Gated.KeptRate && s.Ungated.KeptRate {
			return s, true
		}
		if notes := strings.Join(s.Notes, " "); !strings.Contains(notes, "did not keep the pace") {
			t.Errorf("the pace was not kept, and the notes pass over it: %s", notes)
		}
		o.Speed /= 2
	}
	return s, false
}

func checkDemo(t *testing.T, s Summary) {
	t.Helper()
	wantConsistent(t, "gated", s.Gated)
	wantConsistent(t, "ungated", s.Ungated)
	if s.Outcome != Complete || s.Gated.Arrivals != s.Planned || s.Ungated.Arrivals != s.Planned {
		t.Errorf("%s with %d and %d arrivals, want all %d", s.Outcome, s.Gated.Arrivals, s.Ungated.Arrivals, s.Planned)
	}
	if s.Gated.PeakInFlight > s.Workers || s.Ungated.PeakInFlight > s.Workers {
		t.Errorf("the endpoints saw up to %d and %d calls at once, want at most %d", s.Gated.PeakInFlight, s.Ungated.PeakInFlight, s.Workers)
	}
	if s.Gated.Failed+s.Ungated.Failed+s.Ungated.Refused > 0 {
		t.Errorf("%+v\n%+v\nwant no failures, and refusals with the gate only", s.Gated, s.Ungated)
	}
	if len(s.Notes) == 0 {
		t.Error("nothing to say")
	}
}

var plainLine = regexp.MustCompile(`^t_s=\d+ +phase=\w+ +gate=(on|off) +arrivals=\d+ .*queue_depth=\d+$`)

func checkProgress(t *testing.T, text string) {
	t.Helper()
	on, off := 0, 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "t_s=") {
			continue
		}
		m := plainLine.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case m == nil:
			t.Errorf("line %q", line)
		case m[1] == "on":
			on++
		default:
			off++
		}
	}
	if on < 1 || on != off {
		t.Errorf("%d lines with the gate and %d without, want as many of both", on, off)
	}
	for _, want := range []string{"60s -> ", "25s -> ", "http://127.0.0.1:", "phase=done"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// However early it is stopped, a demo sums up what has been and leaves nothing.
func TestStopped(t *testing.T) {
	for _, after := range []int{1, 5} {
		wantEmptyTempDir(t)
		o := DefaultOptions()
		o.Speed = 100
		ctx, cancel := context.WithCancel(t.Context())
		d, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var last State
		seen := 0
		s, err := d.Play(ctx, 20*time.Millisecond, func(s State) error {
			if seen++; seen == after {
				cancel()
			}
			last = s
			return nil
		})
		if err := errors.Join(err, d.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		wantConsistent(t, "gated", s.Gated)
		wantConsistent(t, "ungated", s.Ungated)
		if s.Outcome != Interrupted || last.Outcome != Interrupted || s.Ungated.Arrivals >= s.Planned {
			t.Errorf("after %d looks: %s with %d arrivals; last seen %s", after, s.Outcome, s.Ungated.Arrivals, last.Outcome)
		}
	}
}

func TestBacklogIsNotWaitedForForEver(t *testing.T) {
	wantEmptyTempDir(t)
	o := shortOptions()
	o.Workers, o.Service = 1, modelstub.Fixed(time.Minute)
	o.Profile.Duration = 10 * time.Second
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.Play(t.Context(), time.Second, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if s.Outcome != DrainLimit || s.Ungated.Unfinished == 0 {
		t.Errorf("%s with %d unfinished, want the drain limit and some", s.Outcome, s.Ungated.Unfinished)
	}
	wantConsistent(t, "ungated", s.Ungated)
}

// An error of a server ends the demo. TestFailureWhileSettling has an error of the watcher.
func TestFailureEndsTheDemo(t *testing.T) {
	wantEmptyTempDir(t)
	broken := errors.New("broken")
	d := newDemo(t, shortOptions())
	d.failed <- broken
	s, err := d.Play(t.Context(), time.Hour, ignore)
	if !errors.Is(err, broken) || s.Outcome != Interrupted {
		t.Errorf("%v and %s, want the error and an end", err, s.Outcome)
	}
}

// failingWriter takes so many writes and then is gone, as a pipe's reader may be.
type failingWriter struct {
	left int
	err  error
}

func (c *failingWriter) Write(p []byte) (int, error) {
	if c.left--; c.left < 0 {
		return 0, c.err
	}
	return len(p), nil
}

func TestClosedOutput(t *testing.T) {
	gone := errors.New("gone")
	for _, writes := range []int{0, 1, 3} { // the introduction, progress, the summary
		wantEmptyTempDir(t)
		out := &failingWriter{left: writes, err: gone}
		err := Show(t.Context(), shortOptions(), Screen{Out: out, Live: out})
		if !errors.Is(err, gone) {
			t.Errorf("output closed after %d writes: %v", writes, err)
		}
	}
}

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var metricsURL = regexp.MustCompile(`curl -s (http://\S+/metrics)`)

func TestKeep(t *testing.T) {
	wantEmptyTempDir(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var live buffer
	done := make(chan error, 1)
	go func() { done <- Show(ctx, shortOptions(), Screen{Out: io.Discard, Live: &live, Keep: true}) }()
	urls := waitFor(t, done, func() [][]string { return metricsURL.FindAllStringSubmatch(live.String(), -1) })
	if len(urls) != 2 {
		t.Fatalf("metrics of %v, want both sides", urls)
	}
	for _, m := range urls {
		if body := get(t, m[1]); !strings.Contains(body, "headgate_arrivals_total") {
			t.Errorf("%s has no arrivals:\n%s", m[1], body)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// waitFor waits until there is something to find.
func waitFor[T any](t *testing.T, done <-chan error, find func() []T) []T {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if found := find(); len(found) > 0 {
			return found
		}
		select {
		case err := <-done:
			t.Fatalf("ended early: %v", err)
		case <-tick.C:
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(body)
}

// Both sides do the same work: as long as nothing is refused, their results
// are equal.
func TestBothSidesGetTheSame(t *testing.T) {
	a, err := newWorkload(DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	b, err := newWorkload(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Seed = 2
	other, err := newWorkload(o)
	if err != nil {
		t.Fatal(err)
	}
	same, differ := true, false
	for i := range min(len(a.serviceTimes), len(other.serviceTimes)) {
		same = same && a.serviceTimes[i] == b.serviceTimes[i] && a.arrivals[i] == b.arrivals[i]
		differ = differ || a.serviceTimes[i] != other.serviceTimes[i] && a.arrivals[i].At != other.arrivals[i].At
	}
	if !same || !differ || len(a.serviceTimes) != len(a.arrivals) {
		t.Errorf("equal seeds equal: %v; other seeds differ: %v", same, differ)
	}
}

// On a terminal, the last frame stays and the summary stands below it.
func TestShowOnATerminal(t *testing.T) {
	wantEmptyTempDir(t)
	s := &screen{width: 90}
	size := func() (int, int) { return 90, 30 }
	if err := Show(t.Context(), shortOptions(), Screen{Out: s, Live: s, Size: size, Colour: true}); err != nil {
		t.Fatal(err)
	}
	text := s.text()
	intro, frame, summary := strings.Index(text, "headgate demo: the same"), strings.Index(text, "\ndone "), strings.Index(text, "refused at once")
	if intro != 0 || frame < intro || summary < frame {
		t.Errorf("introduction at %d, last frame at %d, summary at %d, want them in this order:\n%s", intro, frame, summary, text)
	}
	if n := strings.Count(text, "oldest in the queue"); n != 1 {
		t.Errorf("%d frames on the screen, want the last one only:\n%s", n, text)
	}
}

func newDemo(t *testing.T, o Options) *Demo {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Times of the scenario are divided by the speed, and nothing else is.
func TestSettingsAreScaled(t *testing.T) {
	endpoint, err := lifecycle.Listen("endpoint", lifecycle.Loopback, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close()
	for _, c := range []struct {
		speed    float64
		slo, age time.Duration
	}{
		{1, 60 * time.Second, 25 * time.Second},
		{20, 3 * time.Second, 1250 * time.Millisecond},
		{500, 120 * time.Millisecond, 50 * time.Millisecond},
	} {
		o := DefaultOptions()
		o.Speed = c.speed
		cfg := (&instance{mode: "enforce", endpoint: endpoint}).config(planOf(t, o), "dir")
		pool := cfg.Pools[0]
		if pool.SLO.Turnaround != c.slo || pool.Admission.MaxQueueAge != c.age {
			t.Errorf("speed %v: SLO %v and queue age %v, want %v and %v", c.speed, pool.SLO.Turnaround, pool.Admission.MaxQueueAge, c.slo, c.age)
		}
		if pool.Workers != 16 || pool.Admission.DepthMultiple != 2 || pool.Admission.Policy != "threshold" {
			t.Errorf("speed %v: pool %+v, want 16 workers and the threshold policy", c.speed, pool)
		}
		if !strings.HasPrefix(cfg.Listen, "127.0.0.1:") || !strings.HasPrefix(cfg.Admin.Listen, "127.0.0.1:") || cfg.Drain != 0 {
			t.Errorf("listens on %s and %s, drains %v; want loopback and no drain", cfg.Listen, cfg.Admin.Listen, cfg.Drain)
		}
		if pool.Timeouts.UpstreamIdle < modelstub.MaxService {
			t.Errorf("an idle timeout of %v cuts tasks off; the longest service is %v", pool.Timeouts.UpstreamIdle, modelstub.MaxService)
		}
	}
}

// What needs both sides running and no load is checked on two demos: each start takes
// seconds under the race detector.
func TestRunningDemo(t *testing.T) {
	realTime, even, slackRealTime := DefaultOptions(), DefaultOptions(), DefaultOptions().WithSlack()
	realTime.Speed, slackRealTime.Speed = 1, 1
	even.Workers, even.Service = 1, modelstub.Fixed(1200*time.Millisecond)
	even.Profile.Bursts = nil
	t.Run("without Slack", func(t *testing.T) {
		wantEmptyTempDir(t)
		d := newDemo(t, shortOptions())
		checkWatched(t, d)
		checkSidesDifferInModeOnly(t, d)
		checkOtherClients(t, d)
		checkWriterErrors(t, d)
		checkIntros(t, d, map[string]Options{"default": DefaultOptions(), "realtime": realTime, "even": even})
	})
	t.Run("with Slack", func(t *testing.T) {
		wantEmptyTempDir(t)
		o := shortOptions()
		o.Slack = true
		d := newDemo(t, o)
		checkWatched(t, d)
		checkKeepHelp(t, d)
		checkIntros(t, d, map[string]Options{"slack": DefaultOptions().WithSlack(), "slack-realtime": slackRealTime})
	})
}

func checkSidesDifferInModeOnly(t *testing.T, d *Demo) {
	t.Helper()
	a, b := d.gated.config(d.plan, "dir").Pools[0], d.ungated.config(d.plan, "dir").Pools[0]
	if a.Mode != "enforce" || b.Mode != "passthrough" || a.Upstream == b.Upstream {
		t.Errorf("modes %s and %s, upstreams %s and %s", a.Mode, b.Mode, a.Upstream, b.Upstream)
	}
	a.Mode, a.Upstream = b.Mode, b.Upstream
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("settings differ:\n%+v\n%+v", a, b)
	}
	for _, y := range d.sides() {
		want := fmt.Sprintf(`headgate_mode{mode="%s",pool="default"} 1`, y.mode)
		if body := get(t, y.addresses().Metrics); !strings.Contains(body, want) {
			t.Errorf("no %s in the metrics of the side", want)
		}
		if info, err := os.Stat(filepath.Join(d.dir, y.mode)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("data directory of %s: %v, %v; want a separate private one", y.mode, info, err)
		}
	}
}

// checkOtherClients checks that the endpoint answers any client, and records only the
// calls of the load.
func checkOtherClients(t *testing.T, d *Demo) {
	t.Helper()
	d.gated.tracker.start = time.Now()
	for _, index := range []string{"", "x", "-1", "99999999999999999999", "3"} {
		call(t, d.gated.addresses().Data, index)
	}
	for i, task := range d.gated.tracker.snapshot() {
		if seen := task.started != unset; seen != (i == 3) {
			t.Errorf("task %d seen: %v", i, seen)
		}
	}
	if got := d.gated.stub.Stats().Completed; got != 5 {
		t.Errorf("endpoint completed %d calls, want 5", got)
	}
}

func call(t *testing.T, base, index string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/chat/completions",
		strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(indexHeader, index)
	r.Header.Set(modelstub.HeaderService, "0s")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("call with index %q: %s", index, resp.Status)
	}
}

// Without a place for its data a demo does not start, and says where it failed.
func TestNoPlaceForData(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	d, err := New(DefaultOptions())
	if err == nil {
		_ = d.Close()
		t.Fatal("New succeeds without a place for its data")
	}
	if !strings.Contains(err.Error(), missing) {
		t.Errorf("%v, want an error that names %s", err, missing)
	}
}

// A side that cannot be started takes what it has opened with it: the leak check
// of the package would find the endpoint.
func TestHalfASide(t *testing.T) {
	o := DefaultOptions()
	s, err := newWorkload(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := newInstance("enforce", o, newPlan(o, s), s, nil, dir, nil); err == nil {
		t.Error("a side starts without its directory")
	}
	if _, err := newInstance("sideways", o, newPlan(o, s), s, nil, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "mode") {
		t.Errorf("a side in an unknown mode: %v, want an error about the mode", err)
	}
}
