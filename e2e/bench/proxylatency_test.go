package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"headgate/internal/loadgen"
)

// latencySeries are quantiles of turnaround in ms, one value a round.
type latencySeries struct{ p50, p99 series }

// latency sends arrivals at random times to each side in turn, whatever becomes
// of those before.
func latency(t testing.TB, sides []side, rate float64, e effort) map[string]latencySeries {
	out := map[string]latencySeries{}
	for round := range e.rounds + 1 {
		for i := range sides {
			side := sides[(i+round)%len(sides)]
			q := arrivals(t, side, rate, uint64(round), e)
			if round == 0 {
				continue // warms up
			}
			d := out[side.name]
			d.p50 = append(d.p50, q.P50*1000)
			d.p99 = append(d.p99, q.P99*1000)
			out[side.name] = d
		}
	}
	return out
}

// arrivals sends one round to one side.
func arrivals(t testing.TB, s side, rate float64, seed uint64, e effort) loadgen.Quantiles {
	plan, err := loadgen.Poisson(rate, e.open, seed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan {
		plan[i].PromptTokens = bodyBytes / 4
	}
	r, err := loadgen.Run(context.Background(), loadgen.Config{URL: "http://" + s.addr}, plan.Source())
	if err != nil {
		t.Fatal(err)
	}
	if ok := r.ByOutcome[loadgen.OK]; ok != r.Arrivals {
		t.Fatalf("%d of %d arrivals at %s were served: %v", ok, r.Arrivals, s.name, r.ByCause)
	}
	return r.Turnaround
}

func report(b *testing.B, rate float64, sides []side, got map[string]latencySeries) {
	rows := [][]string{{"", "p50 ms", "p99 ms", "added p50 ms", "added p99 ms"}}
	for _, s := range sides {
		p50 := got[s.name].p50.against(got[direct].p50, difference)
		p99 := got[s.name].p99.against(got[direct].p99, difference)
		rows = append(rows, []string{
			s.name, got[s.name].p50.spread("%.2f"), got[s.name].p99.spread("%.2f"), p50.spread("%.2f"), p99.spread("%.2f"),
		})
		if s.name != direct {
			b.ReportMetric(p50.median(), strings.ToLower(s.name)+":added-p50-ms")
			b.ReportMetric(p99.median(), strings.ToLower(s.name)+":added-p99-ms")
		}
	}
	logTable(fmt.Sprintf("Latency at %.0f arrivals/s, half of what the slowest can do: median (least .. greatest) of %d rounds", rate, len(got[direct].p50)), rows)
}
