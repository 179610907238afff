package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"headgate/proxy/admission"
)

func TestMetricsAreWellFormed(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		p.more = func(r *testProxy) []Pool { return []Pool{r.newPool("second", newStub(), "b")} }
	})
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Rates of counters that do not exist are nothing, not zero: all are there from
// the start.
func TestCountersExistFromTheStart(t *testing.T) {
	r := newTestProxy(t, nil)
	for _, pool := range []string{"main", Unrouted} {
		for _, o := range admission.Outcomes() {
			r.wantZeroMetric("headgate_tasks_total", "pool", pool, "outcome", o.String())
		}
		for _, reason := range admission.Reasons() {
			r.wantZeroMetric("headgate_refusals_total", "pool", pool, "reason", reason.String())
		}
		r.wantZeroMetric("headgate_arrivals_total", "pool", pool)
	}
	for _, reason := range admission.Reasons() {
		r.wantZeroMetric("headgate_would_refuse_total", "pool", "main", "reason", reason.String())
	}
	for _, name := range []string{
		"headgate_upstream_refusals_total", "headgate_upstream_retries_total", "headgate_announced_retries_total", "headgate_slo_tasks_total", "headgate_slo_bad_tasks_total",
		"headgate_queue_depth", "headgate_queue_oldest_age_seconds", "headgate_in_flight", "headgate_paused", "headgate_gate_behind_seconds", "headgate_last_completion_timestamp_seconds",
		"headgate_queue_wait_seconds", "headgate_service_seconds", "headgate_turnaround_seconds", "headgate_first_byte_seconds",
	} {
		r.wantZeroMetric(name, "pool", "main")
	}
	for _, where := range []string{"proxy", "gate"} {
		r.wantZeroMetric("headgate_panics_total", "where", where)
	}
	for _, reason := range []string{"queue_age", "queue_depth"} {
		r.wantZeroMetric("headgate_false_refusals_total", "pool", "main", "reason", reason)
	}
	r.wantZeroMetric("headgate_gate_panics_total", "pool", "main")
	r.wantZeroMetric("headgate_gate_free_seconds", "pool", "main")
	r.wantZeroMetric("headgate_gate_seconds")
	if n := r.sum("headgate_workers", "pool", "main"); n != 4 {
		t.Errorf("%v workers", n)
	}
}

// wantZeroMetric checks that a metric is there and says zero.
func (r *testProxy) wantZeroMetric(name string, labels ...string) {
	r.Helper()
	found := false
	for _, m := range r.metricFamily(name) {
		found = found || hasLabels(m, labels)
	}
	if n := r.sum(name, labels...); !found || n != 0 {
		r.Errorf("%s%v: there %t, value %v", name, labels, found, n)
	}
}

func TestHistogramsHaveABucketAtTheSLO(t *testing.T) {
	for _, slo := range []time.Duration{time.Minute, 37 * time.Second, 1500 * time.Millisecond, 20 * time.Minute} {
		r := newTestProxy(t, func(p *fixture) { p.pool.SLO = slo })
		found := false
		last := 0.0
		for _, b := range r.metricFamily("headgate_turnaround_seconds")[0].GetHistogram().GetBucket() {
			found = found || b.GetUpperBound() == slo.Seconds()
			if b.GetUpperBound() <= last {
				t.Errorf("SLO %s: bucket %v after %v", slo, b.GetUpperBound(), last)
			}
			last = b.GetUpperBound()
		}
		if !found {
			t.Errorf("no bucket at %s", slo)
		}
	}
}

func TestGaugesFollowTheGate(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		leave := r.occupy(1)
		queued := r.queueCalls(2, chat)
		time.Sleep(7 * time.Second)
		for name, want := range map[string]float64{"headgate_in_flight": 1, "headgate_queue_depth": 2, "headgate_workers": 1} {
			if got := r.sum(name); got != want {
				t.Errorf("%s %v, want %v", name, got, want)
			}
		}
		if age := r.sum("headgate_queue_oldest_age_seconds"); age < 7 || age > 7.5 {
			t.Errorf("oldest age %v", age)
		}
		for _, m := range admission.Modes() {
			r.gate.SetMode(time.Now(), m)
			if on, all := r.sum("headgate_mode", "mode", m.String()), r.sum("headgate_mode"); on != 1 || all != 1 {
				t.Errorf("mode %s: %v, all modes together %v", m, on, all)
			}
		}
		r.gate.SetMode(time.Now(), admission.Enforce)
		leave()
		for _, c := range queued {
			r.wantCompleted(c.wait())
		}
		r.wantIdle()
		r.wantZeroMetric("headgate_in_flight", "pool", "main")
		r.wantZeroMetric("headgate_queue_depth", "pool", "main")
		r.wantZeroMetric("headgate_queue_oldest_age_seconds", "pool", "main")
		if at := r.sum("headgate_last_completion_timestamp_seconds"); at < float64(time.Now().Unix()-60) || at > float64(time.Now().Unix()+1) {
			t.Errorf("last completion %v, now %d", at, time.Now().Unix())
		}
	})
}

func TestAnnouncedRetriesAreCounted(t *testing.T) {
	r := newTestProxy(t, nil)
	for _, n := range []string{"0", "1", "2", "-1", "x", ""} {
		r.wantCompleted(r.chat("X-Stainless-Retry-Count", n))
	}
	if n := r.sum("headgate_announced_retries_total"); n != 2 {
		t.Errorf("%v retries counted, want 2", n)
	}
}

func TestAccountingOfTheSLO(t *testing.T) {
	const slo = time.Minute
	for _, o := range admission.Outcomes() {
		for _, late := range []bool{false, true} {
			obs := Observation{Outcome: o, Turnaround: slo}
			if late {
				obs.Turnaround++
			}
			counts, bad := classifyForSLO(&obs, slo)
			var wantCounts, wantBad bool
			switch o {
			case admission.Refused, admission.Cancelled, admission.Drained, admission.Invalid:
			case admission.ClientGone:
				wantCounts, wantBad = late, late
			case admission.Completed:
				wantCounts, wantBad = true, late
			case admission.UpstreamRefused:
				wantCounts = true
			case admission.DeadlinePassed, admission.UpstreamError, admission.UpstreamTimeout, admission.Truncated:
				wantCounts, wantBad = true, true
			default:
				t.Errorf("outcome %s is not decided about", o)
			}
			if counts != wantCounts || bad != wantBad {
				t.Errorf("%s, late %t: counts %t, bad %t", o, late, counts, bad)
			}
			obs.DrillTraffic = true
			if counts, bad := classifyForSLO(&obs, slo); counts || bad {
				t.Errorf("%s, rehearsed: counts %t, bad %t", o, counts, bad)
			}
		}
	}
}

// Tasks that nobody knows the pool of, and pools that nobody has added.
func TestMetricsOfUnknownPools(t *testing.T) {
	m := must(NewMetrics(prometheus.NewRegistry()))
	m.OnArrival("nowhere")
	m.OnEnd(Observation{Pool: "nowhere"})
	m.OnArrival(Unrouted)
	m.OnEnd(Observation{Pool: Unrouted, Outcome: admission.Invalid, Reason: admission.ReasonMemory, Granted: true, FirstByte: 1})
	if _, err := NewMetrics(m.reg); err == nil {
		t.Error("the same registry was taken twice")
	}
	if r := m.Recent("nowhere", time.Now()); r != (Recent{}) {
		t.Errorf("%+v", r)
	}
}

// TestRecentSeparatesRejectedAndInvalid: a client that sends what is not right
// must not make the gate look busy.
func TestRecentSeparatesRejectedAndInvalid(t *testing.T) {
	w, now := new(window), time.Now()
	for _, o := range []Observation{
		{Outcome: admission.Refused, Reason: admission.ReasonQueueAge}, {Outcome: admission.Drained, Reason: admission.ReasonDraining},
		{Outcome: admission.Invalid}, {Outcome: admission.Invalid}, {Outcome: admission.Invalid}, {Outcome: admission.Cancelled},
		{Outcome: admission.Completed, Granted: true, Turnaround: time.Second},
	} {
		w.arrived(now)
		w.ended(now, &o)
	}
	if r := w.recent(now); r.Arrivals != 7 || r.Rejected != 2 || r.Invalid != 3 || r.Ended != 1 {
		t.Errorf("%+v, want 7 that came, 2 turned away, 3 invalid, 1 ended", r)
	}
}

// A secret that a client sends belongs to the upstream, and nowhere else.
func TestSecretsStayOutOfEverything(t *testing.T) {
	const secret, ours = "s3cr3t-of-the-client", "s3cr3t-of-the-pool"
	type place struct{ path, body, kind string }
	places := []place{
		{chatPath, chat, "application/json"}, {chatPath, `{"model":"` + secret + `"}`, "application/json"},
		{chatPath, `{"model":7,"x":"` + secret + `"}`, "application/json"}, {chatPath, secret, "application/json"},
		{chatPath, chat, secret}, {"/v1/" + secret, chat, "application/json"}, {chatPath, stream, "application/json"},
	}
	headers := [][]string{
		{"Stub-Fault", "status=500"}, {"Stub-Fault", "reset"}, {"Stub-Fault", "truncate=1"}, {"Stub-Fault", "malformed=1"}, {"Stub-Fault", "hang"},
		{deadlineHeader, secret}, {priorityHeader, secret}, {sdkTimeoutHeader, secret}, {"Content-Encoding", secret}, {"Traceparent", secret},
		{"X-Stainless-Retry-Count", secret}, {deadlineHeader, "1e-9"},
	}
	for name, edit := range map[string]func(*fixture){
		"a stub":  func(p *fixture) { p.pool.Models = []string{"m"} },
		"nobody":  func(p *fixture) { p.upstream = rawUpstream{"", nil} },
		"nothing": func(p *fixture) { p.upstream = rawUpstream{"HTTP/1.1 200 OK\r\n" + ours + "\r\n\r\n", nil} },
	} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, func(p *fixture) { edit(p); p.pool.UpstreamKey = ours }, func(r *testProxy) {
				told := new(strings.Builder)
				for _, place := range places {
					for _, h := range append(headers, nil) {
						all := append([]string{"Content-Type", place.kind, "Authorization", "Bearer " + secret, "Cookie", secret, "X-Api-Key", secret}, h...)
						req := r.request(context.Background(), place.path+"?key="+secret, place.body, all...)
						a := r.do(req)
						told.Write(a.body)
						for k, v := range a.header {
							told.WriteString(k + strings.Join(v, ""))
						}
						if strings.Contains(place.path+place.body, secret) && a.status == http.StatusNotFound {
							// The answer to its sender names the model or the path that is missing.
							if !strings.Contains(string(a.body), secret) {
								t.Errorf("what is missing: %s", a.body)
							}
							told.Reset()
						}
					}
				}
				r.models("Authorization", secret)
				r.wantIdle()
				metrics := new(strings.Builder)
				families, err := r.registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range families {
					metrics.WriteString(f.String())
				}
				for what, text := range map[string]string{"an answer": told.String(), "the log": r.logs.String(), "the metrics": metrics.String()} {
					for _, s := range []string{secret, ours} {
						if i := strings.Index(text, s); i >= 0 {
							t.Errorf("%s tells %s: %.200s", what, s, text[max(0, i-100):])
						}
					}
				}
			})
		})
	}
}

// A pause is seen in the metrics for as long as it lasts, and the task that
// waited for its end is served.
func TestPauseIsSeenAndEnds(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		r.gate.Pause(time.Now(), time.Now().Add(5*time.Second))
		waits := r.queueCalls(1, chat)[0]
		if n := r.sum("headgate_paused", "pool", "main"); n != 1 {
			t.Errorf("paused %v, want 1", n)
		}
		time.Sleep(5 * time.Second)
		if n := r.sum("headgate_paused", "pool", "main"); n != 0 {
			t.Errorf("paused %v, want 0", n)
		}
		r.wantCompleted(waits.wait())
	})
}

// A scenario that is played faster has bounds as fine as in its own time, and the
// one at the SLO, which is given as it is played.
func TestTimeScaleOfBuckets(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := must(NewMetrics(reg))
	m.SetTimeScale(10)
	if err := m.AddPool("p", 6*time.Second, must(admission.New(admission.Config{
		Workers: 1, Policy: admission.None{}, QueueLimit: 10, AssumedService: time.Second,
	}))); err != nil {
		t.Fatal(err)
	}
	bounds := map[float64]bool{}
	for _, f := range must(reg.Gather()) {
		if f.GetName() != "headgate_turnaround_seconds" {
			continue
		}
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			bounds[b.GetUpperBound()] = true
		}
	}
	for _, want := range []float64{0.0005, 2.5, 3, 4.5, 6, 60} {
		if !bounds[want] {
			t.Errorf("no bound at %v: %v", want, bounds)
		}
	}
}
