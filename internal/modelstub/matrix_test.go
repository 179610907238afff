package modelstub

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestEveryFaultOnEveryEndpoint checks what holds for all: the client can tell
// a broken answer from a whole one where the fault lets it, the call is
// counted once, and the next call finds its slot.
func TestEveryFaultOnEveryEndpoint(t *testing.T) {
	type expected struct {
		fails bool    // the client sees a failed call or a broken body
		whole bool    // the body is the same as without the fault
		count outcome // how the stub counts it
	}
	faults := map[string]expected{
		"status=503":         {count: faulted},
		"reset":              {fails: true, count: faulted},
		"reset_after=1":      {fails: true, count: faulted},
		"truncate=1":         {count: faulted},
		"malformed=1":        {fails: true, count: faulted},
		"error_event=1":      {count: faulted},
		"silence=1ns":        {whole: true, count: completed},
		"drip=1ns":           {whole: true, count: completed},
		"latency=1ns":        {whole: true, count: completed},
		"reset;latency=1ns":  {fails: true, count: faulted},
		"truncate=0;share=1": {count: faulted},
	}
	s := newTestServer(t, Config{Slots: 1, Seed: 4})
	for _, call := range allRequests() {
		path, body := call[0], call[1]
		plain := s.ok(path, body)
		for fault, want := range faults {
			s.Reset()
			r := s.post(path, body, HeaderFault, fault)
			if (r.err != nil) != want.fails {
				t.Errorf("%s %s %s: error %v", fault, path, body, r.err)
			}
			if whole := r.body == plain.body; whole != want.whole {
				t.Errorf("%s %s %s: the whole body arrived: %v", fault, path, body, whole)
			}
			counted := Counts{Calls: 1}
			counted.add(want.count)
			if got := s.Stats(); got.Counts != counted || got.ByPath[path] != counted || got.Serving != 0 {
				t.Errorf("%s %s %s: stats %+v", fault, path, body, got)
			}
		}
	}
}

// TestNoTerminalEventAfterAFault looks for what a client takes for success in
// streams that a fault has cut at every possible place.
func TestNoTerminalEventAfterAFault(t *testing.T) {
	s := newTestServer(t, Config{})
	terminal := map[string]string{
		pathChat:        "[DONE]",
		pathCompletions: "[DONE]",
		pathResponses:   "event: response.completed",
	}
	bodies := map[string]string{
		pathChat:        chatBody(`"stream":true`),
		pathCompletions: `{"prompt":"a","stream":true}`,
		pathResponses:   `{"input":"a","stream":true}`,
	}
	for path, body := range bodies {
		whole := s.ok(path, body, HeaderChunks, "4").body
		if strings.Count(whole, terminal[path]) != 1 {
			t.Fatalf("%s: the whole stream has no single terminal event", path)
		}
		for n := range strings.Count(whole, "data: ") + 2 {
			fault := Fault{Kind: KindTruncate, After: n}
			cut := s.post(path, body, HeaderChunks, "4", HeaderFault, fault.String())
			if cut.err != nil || strings.Contains(cut.body, terminal[path]) || !strings.HasPrefix(whole, cut.body) {
				t.Errorf("%s cut after %d events: error %v, body %q", path, n, cut.err, cut.body)
			}
		}
	}
}

// TestSettingsChangeUnderTraffic is for the race detector, and expects that no
// change loses a call or a slot.
func TestSettingsChangeUnderTraffic(t *testing.T) {
	s := newTestServer(t, Config{Slots: 2})
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			s.SetService(Fixed(time.Duration(i%3) * time.Microsecond))
			if err := s.SetSlots(i % 4); err != nil {
				t.Error(err)
			}
			if err := s.SetFault(Fault{Kind: KindStatus, Status: 503, Share: 0.5}); err != nil {
				t.Error(err)
			}
			if got := s.Stats(); got.InFlight < 0 || got.Serving > got.PeakServing || got.InFlight > got.PeakInFlight {
				t.Errorf("stats %+v", got)
			}
			s.ClearFault()
		}
	})
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() {
			for range 15 {
				if r := s.post(pathChat, streamBody); r.err != nil || (r.status != 200 && r.status != 503) {
					t.Errorf("status %d, error %v", r.status, r.err)
				}
			}
		})
	}
	calls.Wait()
	close(stop)
	changes.Wait()
	got := s.Stats()
	if got.Calls != 90 || got.Completed+got.Faulted != 90 || got.InFlight+got.Serving+got.Waiting != 0 {
		t.Errorf("stats do not add up: %+v", got)
	}
}

func TestStatsAsJSON(t *testing.T) {
	s := newTestServer(t, Config{})
	s.ok(pathChat, helloRequest)
	b, err := json.Marshal(s.Stats())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"calls":1,"completed":1,"rejected":0,"faulted":0,"client_gone":0,"aborted":0,` +
		`"in_flight":0,"peak_in_flight":1,"serving":0,"peak_serving":1,"waiting":0,` +
		`"by_path":{"/v1/chat/completions":{"calls":1,"completed":1,"rejected":0,"faulted":0,"client_gone":0,"aborted":0}}}`
	if string(b) != want {
		t.Errorf("got %s\nwant %s", b, want)
	}
}
