//go:build agents

package agents

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// The gate and the load are those of the demo's scenario, 20 times as fast.
// Agents and Retry-After know nothing of that.
const (
	speed    = 20
	workers  = 4
	overload = 3
	slo      = 60 * time.Second
	age      = 25 * time.Second
	runs     = 3 // that an agent has, since chance can refuse it more often than it asks
)

// service is what each call takes, before it is sped up.
var service = modelstub.Uniform{Low: 5 * time.Second, High: 30 * time.Second}

const meanService = 17500 * time.Millisecond

// fixture is a gate with a witness before it and a stub behind it.
type fixture struct {
	stub  *harness.Stub
	gate  *harness.Gate
	proxy *harness.RecordingProxy
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{stub: harness.StartStub(t, modelstub.Config{Service: service, Speed: speed, Slots: workers, Seed: 1})}
	w.gate = harness.StartGate(t, harness.Settings{
		Upstream: w.stub.V1(), Workers: workers,
		Pool: fmt.Sprintf("slo: {turnaround: %v}\nadmission: {max_queue_age: %v}", slo/speed, age/speed),
	})
	w.proxy = harness.StartRecordingProxy(t, w.gate.URL)
	return w
}

// overloadGate sends what others would, until the test ends, and returns once some of
// it is refused.
func (w *fixture) overloadGate(t *testing.T) {
	t.Helper()
	rate := overload * workers / meanService.Seconds()
	arrivals, err := loadgen.Poisson(rate, 24*time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan *loadgen.Report, 1)
	go func() {
		report, _ := loadgen.Run(ctx, loadgen.Config{URL: w.gate.URL, Speed: speed, SLO: slo, Stream: true}, arrivals.Source()) // ends by stop
		ended <- report
	}()
	t.Cleanup(func() {
		stop()
		if report := <-ended; report != nil {
			t.Logf("the others: %d arrivals, %d refused, %d served, %d of them late; the stub saw at most %d at once",
				report.Arrivals, report.Refusals, report.ByOutcome[loadgen.OK], report.Late, w.stub.Stats().PeakServing)
		}
	})
	harness.Eventually(t, "the others are refused", func() bool { return w.gate.Scrape(t).Sum("headgate_refusals_total") > 5 })
}

func TestAgents(t *testing.T) {
	modules := install(t)
	for _, a := range agents() {
		for _, crowded := range []bool{false, true} {
			name := a.name + " alone"
			if crowded {
				name = fmt.Sprintf("%s at %d x load", a.name, overload)
			}
			t.Run(name, func(t *testing.T) {
				w := newFixture(t)
				if crowded {
					w.overloadGate(t)
				}
				for run := 1; ; run++ {
					before := len(w.proxy.Exchanges())
					start := time.Now()
					said, err := a.run(t, modules, w.proxy.URL+"/v1")
					took := time.Since(start).Round(100 * time.Millisecond)
					cost := countCost(t, w.proxy.Exchanges()[before:])
					t.Logf("%s, run %d: %v, %v; error: %v", name, run, cost, took, err)
					if err == nil && cost.served > 0 {
						return
					}
					if run == runs || !crowded {
						t.Fatalf("%s did not get its task done; it said:\n%s", a.name, tail(said))
					}
				}
			})
		}
	}
}

// cost is what one task took in requests.
type cost struct {
	requests, served, refused, others int
	retryAfters                       []string // every Retry-After
}

func (c cost) String() string {
	text := fmt.Sprintf("%d requests for one task: %d served, %d refused, %d other answers", c.requests, c.served, c.refused, c.others)
	if c.refused > 0 {
		text += fmt.Sprintf(" (Retry-After %s s)", strings.Join(c.retryAfters, ", "))
	}
	return text
}

// countCost counts the requests for the model, and checks every refusal.
func countCost(t *testing.T, exchanges []harness.Exchange) cost {
	t.Helper()
	var c cost
	for _, e := range exchanges {
		if e.Path == "/v1/models" {
			continue
		}
		c.requests++
		switch e.Status {
		case http.StatusOK:
			c.served++
		case http.StatusTooManyRequests:
			c.refused++
			c.retryAfters = append(c.retryAfters, e.ResponseHeader.Get("Retry-After"))
			if e.ResponseHeader.Get("Headgate-Reason") == "" || e.ResponseHeader.Get("Retry-After") == "" {
				t.Errorf("a refusal without reason or Retry-After: %v", e.ResponseHeader)
			}
		default:
			c.others++
		}
	}
	return c
}

func tail(s string) string { return s[max(0, len(s)-6000):] }
