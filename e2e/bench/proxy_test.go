package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// effort says how long to measure.
type effort struct {
	rounds    int
	load      time.Duration // of one side in one round
	open      time.Duration // the same, for latency
	waiting   int           // requests in the queue
	streaming int           // open streams
}

// benchmarkEffort is the effort of benchmarks: with -short they only show that they work.
func benchmarkEffort() effort {
	if testing.Short() {
		return short
	}
	return full
}

var (
	full  = effort{rounds: 15, load: 700 * time.Millisecond, open: time.Second, waiting: 2000, streaming: 1000}
	short = effort{rounds: 1, load: 100 * time.Millisecond, open: 200 * time.Millisecond, waiting: 20, streaming: 20}
)

// shape is one kind of load.
type shape struct {
	answer      string
	outstanding int
}

func (s shape) String() string { return fmt.Sprintf("%s/%d", s.answer, s.outstanding) }

var shapes = []shape{{answerJSON, 16}, {answerJSON, 64}, {answerStream, 64}}

// Every part of the benchmarks works. The measured values mean nothing.
func TestProxyBenchmarksRun(t *testing.T) {
	sides := startSides(t)
	for _, s := range shapes {
		got := throughput(t, sides, s, short)
		for _, side := range sides {
			if rate := got.rate[side.name].median(); !(rate > 0) {
				t.Errorf("%s through %s: %v requests a second", s, side.name, rate)
			}
		}
	}
	for name, l := range latency(t, sides, 200, short) {
		if !(l.p50.median() > 0) || l.p99.median() < l.p50.median() {
			t.Errorf("latency through %s: p50 %v, p99 %v", name, l.p50, l.p99)
		}
	}
	for what, m := range memory(t, short) {
		if m.n != 20 {
			t.Errorf("%s: %d were there, want 20", what, m.n)
		}
	}
}

// BenchmarkProxy measures the throughput with a fixed number of outstanding requests, and then the
// latency that a proxy adds at half the throughput of the slowest one.
func BenchmarkProxy(b *testing.B) {
	sides, e := startSides(b), benchmarkEffort()
	for b.Loop() {
		var rate float64
		for _, s := range slices.Backward(shapes) {
			got := throughput(b, sides, s, e)
			got.report(b, sides, s)
			rate = got.slowest() / 2 // the last one, of the first shape, is used
		}
		report(b, rate, sides, latency(b, sides, rate, e))
	}
	b.ReportMetric(0, "ns/op")
}

// measured are the results of a load of one shape, by side.
type measured struct {
	rate   map[string]series  // requests a second
	cpu    map[string]series  // processor time a request, µs
	failed map[string]float64 // requests, in all rounds
}

// throughput loads each side in turn, in each round starting with another one. The first round
// is a warm-up and not counted.
func throughput(t testing.TB, sides []side, s shape, e effort) measured {
	m := measured{map[string]series{}, map[string]series{}, map[string]float64{}}
	for round := range e.rounds + 1 {
		for i := range sides {
			side := sides[(i+round)%len(sides)]
			before := cpuTime(side.pid)
			l := generateLoad(side.addr, s.outstanding, s.answer, e.load)
			spent := cpuTime(side.pid) - before
			if side.name == headgate && l.err != nil {
				t.Fatalf("%s through %s: %v", s, side.name, l.err)
			}
			m.failed[side.name] += l.failed
			if round > 0 {
				m.rate[side.name] = append(m.rate[side.name], l.rate)
				m.cpu[side.name] = append(m.cpu[side.name], float64(spent.Microseconds())/l.done)
			}
		}
	}
	return m
}

// slowest returns the throughput of the slowest side.
func (m measured) slowest() float64 {
	least := math.Inf(1)
	for _, rates := range m.rate {
		least = min(least, rates.median())
	}
	return least
}

func (m measured) report(b *testing.B, sides []side, s shape) {
	ours := m.rate[headgate]
	rows := [][]string{{"", "requests/s", "headgate's ÷ this", "CPU µs/request", "failed"}}
	for _, side := range sides {
		theirs := m.rate[side.name]
		ratio := ours.against(theirs, quotient)
		rows = append(rows, []string{
			side.name, theirs.spread("%.0f"), ratio.spread("%.2f"), m.cpu[side.name].spread("%.0f"), fmt.Sprint(m.failed[side.name]),
		})
		if side.name == reverse || side.name == haproxy {
			b.ReportMetric(ratio.median(), fmt.Sprintf("%s:ours/%s", s, strings.ToLower(side.name)))
		}
	}
	logTable(fmt.Sprintf("Throughput, answer %s, %d outstanding: median (least .. greatest) of %d rounds", s.answer, s.outstanding, len(ours)), rows)
}
