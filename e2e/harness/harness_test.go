package harness

import (
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"headgate/internal/modelstub"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

func post(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	res, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(ChatRequest))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestGateBetweenProxyAndStub(t *testing.T) {
	t.Parallel()
	stub := StartStub(t, modelstub.Config{})
	gate := StartGate(t, Settings{Upstream: stub.V1(), Workers: 2, Pool: "models: [stub-model]\nslo: {turnaround: 50s}"})
	proxy := StartRecordingProxy(t, gate.URL)
	res, body := post(t, proxy.URL)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `"chat.completion"`) {
		t.Errorf("status %d, body %s", res.StatusCode, body)
	}
	if seen := stub.Requests(); len(seen) != 1 || string(seen[0].Body) != ChatRequest || seen[0].Path != "/v1/chat/completions" {
		t.Errorf("the stub saw %+v", seen)
	}
	if e := proxy.Exchanges(); len(e) != 1 || e[0].Status != http.StatusOK || e[0].ResponseHeader.Get("Headgate-Task-Id") == "" || e[0].RespondedAt.Before(e[0].RequestedAt) {
		t.Errorf("the proxy recorded %+v", e)
	}
	Eventually(t, "the task is counted", func() bool {
		return gate.Scrape(t).Sum("headgate_tasks_total", "pool", "default", "outcome", "completed") == 1
	})
	if got := gate.Scrape(t).Sum("headgate_workers"); got != 2 {
		t.Errorf("workers = %v, want 2", got)
	}
	gate.Stop(t)
	if gate.Wait(t) != 0 || !strings.Contains(gate.Stderr(), `"msg":"stopped"`) {
		t.Errorf("the gate did not end in order: %s", gate.Stderr())
	}
}

func TestKilledProcessIsReported(t *testing.T) {
	t.Parallel()
	stub := StartStub(t, modelstub.Config{})
	gate := StartGate(t, Settings{Upstream: stub.V1()})
	gate.Signal(t, syscall.SIGKILL)
	if code := gate.Wait(t); code != -1 || !gate.EndedBy(syscall.SIGKILL) || gate.EndedBy(syscall.SIGTERM) {
		t.Errorf("exit code %d after SIGKILL, state %v", code, gate.cmd.ProcessState)
	}
}

func TestMetricsSum(t *testing.T) {
	const text = `# TYPE a_total counter
a_total{pool="x",reason="one"} 2
a_total{pool="x",reason="two"} 3
a_total{pool="y",reason="one"} 0
# TYPE h histogram
h_bucket{le="1"} 4
h_bucket{le="+Inf"} 7
h_sum 9
h_count 7
# TYPE g gauge
g -1.5
`
	m, err := ParseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"a_total", nil, 5},
		{"a_total", []string{"reason", "one"}, 2},
		{"a_total", []string{"reason", "one", "pool", "y"}, 0},
		{"a_total", []string{"reason", "none"}, 0},
		{"h", nil, 7},
		{"g", nil, -1.5},
	} {
		if got := m.Sum(c.name, c.labels...); got != c.want {
			t.Errorf("Sum(%s, %v) = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if got := m.Sum("absent"); !math.IsNaN(got) {
		t.Errorf("Sum(absent) = %v, want NaN", got)
	}
	if got := m.By("a_total", "reason"); len(got) != 2 || got["one"] != 2 || got["two"] != 3 {
		t.Errorf("By reason = %v, want one 2, two 3", got)
	}
	if _, err := ParseMetrics(strings.NewReader("a_total{ 1\n")); err == nil {
		t.Error("a broken text was parsed")
	}
}

func TestSettingsIndentPool(t *testing.T) {
	got := Settings{Upstream: "http://x/v1", Pool: "mode: observe\nlimits: {body: 1MiB}", Top: "drain: 1s"}.yaml()
	want := `listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
log: {level: debug, format: json}
drain: 1s
pools:
  - name: default
    upstream: "http://x/v1"
    workers: 4
    mode: observe
    limits: {body: 1MiB}
`
	if got != want {
		t.Errorf("settings:\n%s\nwant:\n%s", got, want)
	}
}
