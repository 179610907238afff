package bench

import (
	"fmt"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
	"headgate/internal/loadgen"
)

// The benchmark works. The measured values mean nothing.
func TestHostileBenchmarkRuns(t *testing.T) {
	got := measureAttack(t, 100, 200, short)
	if len(got.quiet.p99) != 1 || !(got.attacked.p99.median() > 0) || got.open != 100 || got.refused == 0 {
		t.Errorf("measured %+v", got)
	}
}

// BenchmarkHostile measures the latency of the data plane with and without an
// attack on the admin plane, in turn within one run. The aim is an attacked p99
// within twice the quiet one.
func BenchmarkHostile(b *testing.B) {
	e, connections := benchmarkEffort(), 10_000
	if testing.Short() {
		connections = 100
	}
	for b.Loop() {
		got := measureAttack(b, rollbacktest.FreeFiles(connections), 0, e)
		ratio := got.attacked.p99.against(got.quiet.p99, quotient)
		logTable(fmt.Sprintf("Data plane at %.0f arrivals/s while the admin plane is attacked (%d connections, %d requests refused): median (least .. greatest) of %d rounds",
			got.rate, got.open, got.refused, e.rounds), [][]string{
			{"", "p50 ms", "p99 ms"},
			{"quiet", got.quiet.p50.spread("%.2f"), got.quiet.p99.spread("%.2f")},
			{"attacked", got.attacked.p50.spread("%.2f"), got.attacked.p99.spread("%.2f")},
			{"attacked ÷ quiet", got.attacked.p50.against(got.quiet.p50, quotient).spread("%.2f"), ratio.spread("%.2f")},
		})
		b.ReportMetric(ratio.median(), "p99:attacked/quiet")
	}
	b.ReportMetric(0, "ns/op")
}

// attackResult are the measured values.
type attackResult struct {
	rate            float64 // arrivals a second
	open            int     // connections of the attack
	refused         int64
	quiet, attacked latencySeries
}

// measureAttack sends arrivals at a rate. Rate 0 is a tenth of the maximum, which leaves room for
// the attacker on the same machine.
func measureAttack(t testing.TB, connections int, rate float64, e effort) attackResult {
	stub := startRole(t, roleStub)
	gate := startHeadgate(t, stub.line, manyWorkers)
	if rate == 0 {
		l := generateLoad(gate.addr, shapes[0].outstanding, answerJSON, e.load)
		if l.err != nil {
			t.Fatal(l.err)
		}
		rate = l.rate / 10
	}
	got := attackResult{rate: rate}
	for round := range e.rounds + 1 {
		for i := range 2 {
			d := &got.quiet
			var q loadgen.Quantiles
			if (i+round)%2 == 0 {
				q = arrivals(t, gate.side, rate, uint64(round), e)
			} else {
				d = &got.attacked
				q = got.measureUnderAttack(t, gate, connections, uint64(round), e)
			}
			if round > 0 { // the first one is a warm-up
				d.p50, d.p99 = append(d.p50, q.P50*1000), append(d.p99, q.P99*1000)
			}
		}
	}
	return got
}

// measureUnderAttack sends arrivals during an attack: after its connections have been
// accepted and before they are closed, so that neither is measured.
func (got *attackResult) measureUnderAttack(t testing.TB, gate headgateSide, connections int, seed uint64, e effort) loadgen.Quantiles {
	files := func() int { return int(gate.gate.Scrape(t).Sum("process_open_fds")) }
	before := files()
	a := startAttack(gate.gate.Admin, connections)
	// Not before+a.open: connections of the load before may be among those of before.
	harness.Eventually(t, "the connections of the attack are accepted", func() bool { return files() >= a.open })
	q := arrivals(t, gate.side, got.rate, seed, e)
	open, refused := a.stop()
	harness.Eventually(t, "the connections of the attack are closed", func() bool { return files() <= before+manyWorkers/16 })
	got.open, got.refused = max(got.open, open), got.refused+refused
	return q
}
