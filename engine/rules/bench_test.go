//go:build unix

package rules

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"headgate/engine"
	"headgate/engine/tsdb"
)

const benchPools = 10

// benchSettings are ten pools as they come.
func benchSettings() Settings {
	s := settings()
	s.Pools = nil
	for n := range benchPools {
		p := defaultPool()
		p.Name = fmt.Sprintf("pool-%d", n)
		s.Pools = append(s.Pools, p)
	}
	return s
}

// metric is one series and what it has after some seconds.
type metric struct {
	labels labels.Labels
	at     func(sec float64) float64
}

// poolMetrics are all series that a busy pool has.
func poolMetrics(pool string) []metric {
	var all []metric
	add := func(at func(float64) float64, name string, pairs ...string) {
		l := labels.FromStrings(append([]string{model.MetricNameLabel, "headgate_" + name, "pool", pool}, pairs...)...)
		all = append(all, metric{l, at})
	}
	const perSecond = 2.0
	grows := func(share float64) func(float64) float64 {
		return func(sec float64) float64 { return float64(int(share * perSecond * sec)) }
	}
	add(grows(1), "arrivals_total")
	for n, o := range strings.Fields("completed refused deadline_passed client_gone upstream_error upstream_refused upstream_timeout truncated cancelled drained invalid") {
		add(grows([]float64{.9, .04, 0, .02, .02, .01, .01}[min(n, 6)]), "tasks_total", "outcome", o)
	}
	for _, name := range []string{"refusals_total", "would_refuse_total"} {
		for _, r := range strings.Fields("queue_age queue_depth deadline_unmeetable deadline_passed client_quota memory") {
			add(grows(.007), name, "reason", r)
		}
	}
	add(grows(.9), "slo_tasks_total")
	add(grows(.02), "slo_bad_tasks_total")
	add(grows(0), "upstream_refusals_total")
	add(grows(0), "announced_retries_total")
	for _, h := range []string{"queue_wait_seconds", "service_seconds", "turnaround_seconds", "first_byte_seconds"} {
		for n, le := range strings.Fields("0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 7.5 10 15 20 25 30 45 60 90 120 180 300 600 +Inf") {
			add(grows(float64(n)/23), h+"_bucket", "le", le)
		}
		add(grows(1), h+"_count")
		add(grows(18), h+"_sum")
	}
	add(grows(0), "false_refusals_total")
	add(grows(0), "gate_panics_total")
	for n, le := range strings.Fields("0.0001 0.001 0.01 0.1 1 +Inf") {
		add(grows(float64(n)/5), "gate_free_seconds_bucket", "le", le)
	}
	add(grows(1), "gate_free_seconds_count")
	add(grows(0), "gate_behind_seconds")
	add(func(s float64) float64 { return float64(int(s*7)%9) / 2 }, "queue_depth")
	add(func(s float64) float64 { return float64(int(s*3) % 13) }, "queue_oldest_age_seconds")
	add(func(s float64) float64 { return 4 }, "in_flight")
	add(func(s float64) float64 { return 4 }, "workers")
	add(func(s float64) float64 { return .7 + float64(int(s)%20)/100 }, "envelope_use_ratio")
	add(func(s float64) float64 { return float64(testEpoch.Unix()) + s }, "last_completion_timestamp_seconds")
	for _, m := range []string{"enforce", "observe", "passthrough"} {
		add(func(float64) float64 { return 0 }, "mode", "mode", m)
	}
	return all
}

func processMetrics() []metric {
	var all []metric
	add := func(rate float64, name string, pairs ...string) {
		l := labels.FromStrings(append([]string{model.MetricNameLabel, "headgate_" + name}, pairs...)...)
		all = append(all, metric{l, func(sec float64) float64 { return float64(int(rate * sec)) }})
	}
	add(0, "delivery_oldest_pending_seconds")
	for _, r := range strings.Fields("sent retry uncertain dead dropped lost") {
		add(.001, "deliveries_total", "channel", "page", "result", r)
	}
	add(.01, "evaluations_late_total")
	add(0, "evaluations_skipped_total")
	add(1, "evaluation_seconds_count")
	add(0, "journal_errors_total", "op", "save")
	add(0, "outbox_errors_total", "op", "save")
	return all
}

// fillWeek writes a week of samples: the last hours second by second, what is
// before in coarse steps, since no signal reads it but through recorded series.
func fillWeek(b testing.TB, db *tsdb.DB, pools []Pool, week, coarse time.Duration, now *time.Time) {
	b.Helper()
	var all []metric
	for _, p := range pools {
		all = append(all, poolMetrics(p.Name)...)
	}
	all = append(all, processMetrics()...)
	batch := make([]tsdb.Sample, len(all))
	for at := time.Duration(0); at <= week; {
		for i, m := range all {
			batch[i] = tsdb.Sample{Labels: m.labels, V: m.at(at.Seconds())}
		}
		*now = testEpoch.Add(at)
		if err := db.Append(context.Background(), *now, batch); err != nil {
			b.Fatal(err)
		}
		step := time.Second
		if week-at > 75*time.Minute {
			step = coarse
		}
		at += step
	}
}

// BenchmarkEvaluation measures an evaluation of all built-in rules for ten pools
// over a week of samples: those that are not slow every second, the others every
// 30 s. It reports the cost of a second, and what the process holds in memory.
// HEADGATE_BENCH_SPAN sets another span, HEADGATE_BENCH_STEP how far samples are
// apart before the last 75 minutes (15s; 1s takes minutes to fill). With -short the span is
// two hours.
func BenchmarkEvaluation(b *testing.B) {
	week := 7 * 24 * time.Hour
	if testing.Short() {
		week = 2 * time.Hour
	}
	span, coarse := duration(b, "HEADGATE_BENCH_SPAN", week), duration(b, "HEADGATE_BENCH_STEP", 15*time.Second)
	s := benchSettings()
	now := testEpoch
	db, err := tsdb.Open(tsdb.Options{Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Retention: s.Retention})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	began := time.Now()
	fillWeek(b, db, s.Pools, span, coarse, &now)
	b.Logf("filled %s in %s", span, time.Since(began).Round(time.Second))
	var fast, slow []engine.Rule
	for _, r := range builtIn(b, s) {
		switch {
		case r.Name == engine.SignalMissing:
		case r.Slow:
			slow = append(slow, r)
		default:
			fast = append(fast, r)
		}
	}
	for key, v := range db.Values(b.Context(), now, append(fast, slow...)) {
		if v.Quality == engine.Missing {
			b.Errorf("signal of %s in pool %q is missing: add its metrics to poolMetrics or processMetrics", key.Rule, key.Pool)
		}
	}
	if b.Failed() {
		return
	}
	runtime.GC()
	var fastTook, slowTook time.Duration
	slowRuns := 0
	cpu := cpuTime(b)
	b.ResetTimer()
	for n := 0; b.Loop(); n++ {
		t := time.Now()
		db.Values(b.Context(), now, fast)
		fastTook += time.Since(t)
		if n%30 == 0 {
			t = time.Now()
			db.Values(b.Context(), now, slow)
			slowTook += time.Since(t)
			slowRuns++
		}
	}
	b.StopTimer()
	fastMs := fastTook.Seconds() * 1000 / float64(b.N)
	slowMs := slowTook.Seconds() * 1000 / float64(slowRuns)
	b.ReportMetric((cpuTime(b)-cpu).Seconds()*1000/float64(b.N), "cpu-ms")
	b.ReportMetric(fastMs, "fast-ms")
	b.ReportMetric(slowMs, "slow-ms")
	b.ReportMetric(fastMs+slowMs/30, "ms/s")
	b.ReportMetric(resident("VmRSS"), "resident-MB")
	b.ReportMetric(resident("RssAnon"), "anonymous-MB")
}

// cpuTime returns what the process has used of CPU, in all its threads: on a busy
// machine it says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// duration returns what a variable of the environment says.
func duration(b *testing.B, name string, otherwise time.Duration) time.Duration {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// resident returns a figure of the process's memory in MB: VmRSS is all of it that
// is resident, RssAnon leaves out the pages of files, which the system takes back
// when it needs them. Without /proc it is the memory that Go obtained from the system.
func resident(field string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, field+":"); ok {
				if kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64); err == nil {
					return kb / 1024
				}
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys) / 1e6
}
