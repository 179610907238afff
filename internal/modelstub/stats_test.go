package modelstub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// TestPeakInFlightOfALimitedClient is what makes the count fit for a verdict: a
// client that never has more than limit calls open must never be seen with
// more, though each worker sends its next call the moment it has its answer.
func TestPeakInFlightOfALimitedClient(t *testing.T) {
	const limit, each = 8, 30
	s := newTestServer(t, Config{Slots: 4})
	var wg sync.WaitGroup
	for w := range limit {
		wg.Go(func() {
			for i := range each {
				body := []string{helloRequest, streamBody}[i%2]
				if r := s.post(pathChat, body, HeaderFault, []string{"latency=1ms", "truncate=2", "status=500"}[(w+i)%3]); r.err != nil {
					t.Errorf("call failed: %v", r.err)
				}
			}
		})
	}
	wg.Wait()
	got := s.Stats()
	if got.PeakInFlight > limit || got.PeakInFlight < 2 || got.PeakServing > 4 {
		t.Errorf("peak in flight %d (limit %d), peak serving %d (slots 4)", got.PeakInFlight, limit, got.PeakServing)
	}
	if got.Calls != limit*each || got.Completed+got.Faulted != got.Calls || got.InFlight != 0 || got.Serving != 0 || got.Waiting != 0 {
		t.Errorf("stats do not add up: %+v", got)
	}
}

func TestPeakInFlightCountsCallsThatWaitForASlot(t *testing.T) {
	s := newTestServer(t, Config{Slots: 2})
	var wg sync.WaitGroup
	for range 7 {
		wg.Go(func() { s.post(pathChat, helloRequest, HeaderFault, "hang") })
	}
	eventually(t, "seven are in flight", func() bool { return s.Stats().InFlight == 7 })
	eventually(t, "two are served", func() bool { return s.Stats().Serving == 2 && s.Stats().Waiting == 5 })
	s.LoseSlots(-2)
	if got := s.Stats(); got.Serving != 4 || got.Waiting != 3 || got.PeakInFlight != 7 || got.PeakServing != 4 {
		t.Errorf("after two slots more: %+v", got)
	}
	s.Close()
	wg.Wait()
}

func TestClientThatWaitsForASlotLeavesTheQueue(t *testing.T) {
	s := newTestServer(t, Config{Slots: 1})
	var holder sync.WaitGroup
	ctx, release := contextWithCancel(t)
	send := func(ctx context.Context, h http.Header) {
		if resp, err := s.client.Do(s.request(ctx, http.MethodPost, pathChat, helloRequest, h)); err == nil {
			_ = resp.Body.Close()
		}
	}
	holder.Go(func() { send(ctx, headers(HeaderFault, "hang")) })
	eventually(t, "the slot is held", func() bool { return s.Stats().Serving == 1 })
	waiting, leave := contextWithCancel(t)
	var left sync.WaitGroup
	left.Go(func() { send(waiting, nil) })
	eventually(t, "the second call waits", func() bool { return s.Stats().Waiting == 1 })
	leave()
	left.Wait()
	eventually(t, "the second call has left", func() bool { return s.Stats().Waiting == 0 && s.Stats().ClientGone == 1 })
	release()
	holder.Wait()
	eventually(t, "both are gone", func() bool { return s.Stats().ClientGone == 2 && s.Stats().InFlight == 0 })
	if got := s.Stats(); got.PeakServing != 1 {
		t.Errorf("the call that left was served: %+v", got)
	}
}

func TestClientGoneMidStream(t *testing.T) {
	s := newTestServer(t, Config{Slots: 1})
	ctx, leave := contextWithCancel(t)
	req := s.request(ctx, http.MethodPost, pathChat, streamBody, headers(HeaderFault, "silence=10m;after=2"))
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	leave()
	_ = resp.Body.Close()
	eventually(t, "the disconnect is noticed", func() bool { return s.Stats().ClientGone == 1 && s.Stats().Serving == 0 })
}

func TestStatsByPath(t *testing.T) {
	s := newTestServer(t, Config{})
	s.ok(pathChat, helloRequest)
	s.ok(pathCompletions, `{"prompt":"a"}`)
	s.do(http.MethodGet, "/nothing", "", nil)
	s.do(http.MethodGet, "/nothing/else", "", nil)
	got := s.Stats()
	if got.ByPath[pathChat].Completed != 1 || got.ByPath[pathCompletions].Completed != 1 || got.ByPath["other"].Rejected != 2 || got.Calls != 4 {
		t.Errorf("stats %+v", got)
	}
	got.ByPath[pathChat] = Counts{} // the caller's own copy
	if s.Stats().ByPath[pathChat].Calls != 1 {
		t.Error("a caller changed the counts")
	}
}

func TestPanicGivesTheSlotBack(t *testing.T) {
	stub, err := New(Config{Slots: 1, Tap: nil})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the writer's panic was swallowed")
			}
		}()
		stub.ServeHTTP(panicWriter{httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost, pathChat, strings.NewReader(helloRequest)))
	}()
	got := stub.Stats()
	if got.InFlight != 0 || got.Serving != 0 || got.Aborted != 1 || got.PeakServing != 1 {
		t.Errorf("after a panic: %+v", got)
	}
}

type panicWriter struct{ http.ResponseWriter }

func (panicWriter) WriteHeader(int) { panic("writer broken") }

func TestStatsUnderManyClientsThatLeave(t *testing.T) {
	s := newTestServer(t, Config{Slots: 3, Service: Uniform{High: 4 * time.Millisecond}})
	var wg sync.WaitGroup
	for w := range 40 {
		r := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range 10 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(10))*time.Millisecond)
				resp, err := s.client.Do(s.request(ctx, http.MethodPost, pathChat, streamBody, nil))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	eventually(t, "all gauges are zero", func() bool {
		got := s.Stats()
		return got.InFlight == 0 && got.Serving == 0 && got.Waiting == 0
	})
	got := s.Stats()
	if got.PeakServing > 3 || got.Completed+got.ClientGone+got.Rejected != got.Calls {
		t.Errorf("stats do not add up: %+v", got)
	}
}

func TestTapSeesTheBodyAsSent(t *testing.T) {
	var seen atomic.Pointer[string]
	s := newTestServer(t, Config{Tap: func(r *http.Request, body []byte) {
		seen.Store(new(fmt.Sprintf("%s %s %s", r.URL.Path, r.Header.Get("Authorization"), body)))
	}})
	packed, err := compress("gzip", []byte(helloRequest))
	if err != nil {
		t.Fatal(err)
	}
	s.ok(pathChat, string(packed), "Content-Encoding", "gzip", "Authorization", "Bearer k")
	if got, want := *seen.Load(), pathChat+" Bearer k "+string(packed); got != want {
		t.Errorf("the tap saw %q, want %q", got, want)
	}
}

func (s *testServer) counts() (c Stats) {
	s.t.Helper()
	r := s.do(http.MethodGet, pathCounts, "", nil)
	if r.err != nil || r.status != http.StatusOK || r.header.Get("Content-Type") != "application/json" {
		s.t.Fatalf("counts: %d, %v", r.status, r.err)
	}
	d := json.NewDecoder(strings.NewReader(r.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func TestCountsCanBeAskedFor(t *testing.T) {
	s := newTestServer(t, Config{Slots: 1})
	s.ok(pathChat, helloRequest)
	s.post(pathChat, `{`)
	s.post(pathChat, helloRequest, HeaderFault, "status=500")
	ctx, leave := contextWithCancel(t)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := s.client.Do(s.request(ctx, http.MethodPost, pathChat, helloRequest, headers(HeaderFault, "hang"))); err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, "one hangs", func() bool { return s.counts().Serving == 1 })
	got := s.counts()
	if got.Calls != 4 || got.Completed != 1 || got.Rejected != 1 || got.Faulted != 1 || got.InFlight != 1 || got.PeakInFlight != 1 {
		t.Errorf("while one hangs: %+v", got)
	}
	leave()
	<-gone
	eventually(t, "it is seen to have gone", func() bool { return s.counts().ClientGone == 1 })
	if got = s.counts(); !reflect.DeepEqual(got, s.Stats()) || got.InFlight != 0 || got.ByPath[pathChat].Calls != 4 {
		t.Errorf("afterwards: %+v, want %+v", got, s.Stats())
	}
}

func TestCountsRequestIsNotCounted(t *testing.T) {
	s := newTestServer(t, Config{})
	if got := s.counts(); got.Calls != 0 || len(got.ByPath) != 0 {
		t.Errorf("counted itself: %+v", got)
	}
	if r := s.post(pathCounts, `{}`); r.status != http.StatusNotFound {
		t.Errorf("POST: %d", r.status)
	}
}
