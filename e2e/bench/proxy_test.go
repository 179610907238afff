package bench

import (
	"fmt"
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

var (
	full  = effort{rounds: 7, load: 1500 * time.Millisecond, open: 3 * time.Second, waiting: 2000, streaming: 1000}
	short = effort{rounds: 1, load: 100 * time.Millisecond, open: 200 * time.Millisecond, waiting: 20, streaming: 20}
)

// shape is one kind of load.
type shape struct {
	answer      string
	outstanding int
}

func (s shape) String() string { return fmt.Sprintf("%s/%d", s.answer, s.outstanding) }

var shapes = []shape{{answerJSON, 16}, {answerJSON, 64}, {answerStream, 16}}

// TestProxyBenchmarksRun shows in a moment that every part of the benchmarks
// works. What it measures means nothing.
func TestProxyBenchmarksRun(t *testing.T) {
	sides := startSides(t)
	got := throughput(t, sides, shapes, short)
	for _, s := range shapes {
		for _, side := range sides {
			if rate := got.rate[s][side.name].median(); !(rate > 0) {
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

// BenchmarkProxy measures throughput with a fixed number of requests
// outstanding, and then the latency that a proxy adds at half of what the
// slowest one can do.
func BenchmarkProxy(b *testing.B) {
	sides := startSides(b)
	for b.Loop() {
		got := throughput(b, sides, shapes, full)
		got.report(b, sides)
		rate := got.slowest(sides, shapes[0]) / 2
		report(b, rate, sides, latency(b, sides, rate, full))
	}
	b.ReportMetric(0, "ns/op")
}

// measured are requests a second, and processor time a request in µs, by shape
// and side.
type measured struct{ rate, cpu map[shape]map[string]series }

// throughput loads each side in turn, over and over, beginning with another one
// each round. The first round warms up and is not counted.
func throughput(t testing.TB, sides []side, shapes []shape, e effort) measured {
	m := measured{map[shape]map[string]series{}, map[shape]map[string]series{}}
	for _, s := range shapes {
		m.rate[s], m.cpu[s] = map[string]series{}, map[string]series{}
		for round := range e.rounds + 1 {
			for i := range sides {
				side := sides[(i+round)%len(sides)]
				before := cpuTime(side.pid)
				rate, err := load(side.addr, s.outstanding, s.answer, e.load)
				if err != nil {
					t.Fatalf("%s through %s: %v", s, side.name, err)
				}
				if round > 0 {
					spent := cpuTime(side.pid) - before
					m.rate[s][side.name] = append(m.rate[s][side.name], rate)
					m.cpu[s][side.name] = append(m.cpu[s][side.name], float64(spent.Microseconds())/(rate*e.load.Seconds()))
				}
			}
		}
	}
	return m
}

// slowest returns the throughput of the slowest side.
func (m measured) slowest(sides []side, s shape) float64 {
	least := m.rate[s][sides[0].name].median()
	for _, side := range sides {
		least = min(least, m.rate[s][side.name].median())
	}
	return least
}

func (m measured) report(b *testing.B, sides []side) {
	for _, s := range shapes {
		ours := m.rate[s][headgate]
		rows := [][]string{{"", "requests/s", "headgate's ÷ this", "CPU µs/request"}}
		for _, side := range sides {
			theirs := m.rate[s][side.name]
			ratio := ours.against(theirs, over)
			rows = append(rows, []string{side.name, theirs.spread("%.0f"), ratio.spread("%.2f"), m.cpu[s][side.name].spread("%.0f")})
			if side.name == reverse || side.name == haproxy {
				b.ReportMetric(ratio.median(), fmt.Sprintf("%s:ours/%s", s, strings.ToLower(side.name)))
			}
		}
		printTable(fmt.Sprintf("Throughput, answer %s, %d outstanding: median (least .. greatest) of %d rounds", s.answer, s.outstanding, len(ours)), rows)
	}
}
