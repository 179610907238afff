package program

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// loadedGate is a gate with one task that runs until the upstream answers, and two queued ones.
type loadedGate struct {
	upstream *harness.HeldUpstream
	gate     *harness.Gate
	running  pendingReply
	queued   []pendingReply
}

func startLoaded(t *testing.T, top string) loadedGate {
	t.Helper()
	l := loadedGate{upstream: harness.StartHeldUpstream(t)}
	l.gate = harness.StartGate(t, harness.Settings{Upstream: l.upstream.URL + "/v1", Workers: 1, Top: top})
	l.running = sendAsync(t, l.gate.URL, nil)
	harness.Eventually(t, "one runs", func() bool { return l.upstream.Calls() == 1 })
	for range 2 {
		l.queued = append(l.queued, sendAsync(t, l.gate.URL, nil))
	}
	harness.Eventually(t, "two wait", func() bool { return l.gate.Scrape(t).Sum("headgate_queue_depth") == 2 })
	return l
}

func (l loadedGate) checkDrained(t *testing.T) {
	t.Helper()
	for _, q := range l.queued {
		r := <-q.answer
		kind, code := decodeError(t, r)
		n, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != http.StatusServiceUnavailable || code != "draining" || kind == "" || r.header.Get("Headgate-Reason") != "draining" ||
			err != nil || n < 1 || n > 60 {
			t.Errorf("a queued task got %+v", r)
		}
	}
}

func TestTermDrains(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			l := startLoaded(t, "drain: 30s")
			l.gate.Signal(t, signal)
			l.checkDrained(t)
			if got := l.gate.Probe("/readyz"); got != http.StatusServiceUnavailable {
				t.Errorf("/readyz while draining: %d, want 503", got)
			}
			if got := l.gate.Probe("/healthz"); got != http.StatusOK {
				t.Errorf("/healthz while draining: %d, want 200", got)
			}
			if m := l.gate.Scrape(t); m.Sum("headgate_tasks_total", "outcome", "drained") != 2 || m.Sum("headgate_in_flight") != 1 {
				t.Errorf("while draining: outcomes %v", m.By("headgate_tasks_total", "outcome"))
			}
			if r := send(t.Context(), l.gate.URL, nil); r.err == nil {
				t.Errorf("a draining gate took a new connection: %+v", r)
			}
			l.upstream.Release()
			if r := <-l.running.answer; r.err != nil || r.status != http.StatusOK || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
				t.Errorf("the running task got %+v", r)
			}
			if code := l.gate.Wait(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if got := l.upstream.Calls(); got != 1 {
				t.Errorf("the upstream saw %d calls, want the running one", got)
			}
		})
	}
}

// Tasks that still run at the end of the drain time are cut off, at both ends.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	l := startLoaded(t, "drain: 300ms")
	l.gate.Signal(t, syscall.SIGTERM)
	l.checkDrained(t)
	if r := <-l.running.answer; r.err == nil && r.status == http.StatusOK {
		t.Errorf("the task that was cut off looks whole: %+v", r)
	}
	if code := l.gate.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	harness.Eventually(t, "the upstream knows", func() bool { return l.upstream.Disconnected() == 1 })
}

// A second signal ends the process at once.
func TestSecondSignalEnds(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			l := startLoaded(t, "drain: 10m")
			l.gate.Signal(t, signal)
			l.checkDrained(t)
			l.gate.Signal(t, signal)
			if code := l.gate.Wait(t); code != -1 || !l.gate.EndedBy(signal) {
				t.Errorf("exit code %d, want an end by %v", code, signal)
			}
			harness.Eventually(t, "the upstream knows", func() bool { return l.upstream.Disconnected() == 1 })
		})
	}
}

// A killed gate leaves no file, process or open call, and the next one can use its addresses at
// once.
func TestKillLeavesNothing(t *testing.T) {
	t.Parallel()
	l := startLoaded(t, "")
	if got := children(t, l.gate.PID()); got != "" {
		t.Errorf("the gate has started processes: %s", got)
	}
	l.gate.Signal(t, syscall.SIGKILL)
	l.gate.Wait(t)
	for _, client := range append(l.queued, l.running) {
		if r := <-client.answer; r.err == nil {
			t.Errorf("a client of a killed gate got %+v", r)
		}
	}
	harness.Eventually(t, "the upstream is free again", func() bool { return l.upstream.Disconnected() == 1 })
	l.upstream.Release()
	if left := listFiles(t, l.gate.Dir()); len(left) != 1 {
		t.Errorf("left beside the settings: %v", left)
	}
	next := harness.Start(t, harness.Command{Args: []string{"serve", "--config", writeSettings(t,
		"listen: "+strings.TrimPrefix(l.gate.URL, "http://")+"\nadmin: {listen: \""+strings.TrimPrefix(l.gate.Admin, "http://")+"\"}\n"+
			"log: {format: json}\npools: [{name: main, upstream: \""+l.upstream.URL+"/v1\"}]\n")}})
	gate := harness.AwaitGate(t, next)
	if r := send(t.Context(), gate.URL, nil); r.status != http.StatusOK {
		t.Errorf("the next gate answered %+v", r)
	}
}

// The admin plane answers probes and scrapes while the data plane is saturated.
func TestAdminAnswersWhileSaturated(t *testing.T) {
	t.Parallel()
	gate := busyGate(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if got := gate.Probe(path); got != http.StatusOK {
			t.Errorf("%s: status %d, want 200", path, got)
		}
	}
	if got := gate.Probe("/nosuch"); got != http.StatusNotFound {
		t.Errorf("/nosuch: status %d, want 404", got)
	}
}

// Queued clients that disconnect leave the queue and never reach the upstream.
func TestDisconnectedClientsLeaveTheQueue(t *testing.T) {
	t.Parallel()
	const crowd = 50
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1(), Workers: 1, Pool: "mode: passthrough"})
	running := sendAsync(t, gate.URL, map[string]string{"Stub-Fault": "hang"})
	harness.Eventually(t, "one runs", func() bool { return stub.Stats().InFlight == 1 })
	var waiting []pendingReply
	for range crowd {
		waiting = append(waiting, sendAsync(t, gate.URL, nil))
	}
	harness.Eventually(t, "the others wait", func() bool { return gate.Scrape(t).Sum("headgate_queue_depth") == crowd })
	for _, w := range waiting {
		w.cancel()
	}
	harness.Eventually(t, "the queue is empty", func() bool {
		m := gate.Scrape(t)
		return m.Sum("headgate_queue_depth") == 0 && m.Sum("headgate_tasks_total", "outcome", "client_gone") == crowd
	})
	running.cancel()
	if r := send(t.Context(), gate.URL, nil); r.status != http.StatusOK {
		t.Errorf("the next task got %+v", r)
	}
	if got := stub.Stats().Calls; got != 2 {
		t.Errorf("the stub was called %d times, want 2", got)
	}
}

// A client that only connects, or sends a part of its request, holds no permit.
func TestPartialRequestsHoldNoPermit(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1(), Workers: 1})
	address := strings.TrimPrefix(gate.URL, "http://")
	for _, piece := range []string{
		"", "POST /v1/chat/completions HTTP/1.1\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"model\":",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if r := send(t.Context(), gate.URL, nil); r.status != http.StatusOK {
		t.Errorf("another client got %+v", r)
	}
}
