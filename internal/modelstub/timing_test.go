package modelstub

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// withSynctest runs a stub and its client on a virtual clock.
func withSynctest(t *testing.T, config Config, f func(t *testing.T, s *testServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, stop := newInMemoryServer(t, config)
		defer stop()
		f(t, s)
	})
}

func elapsed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

func TestServiceTimeIsKept(t *testing.T) {
	withSynctest(t, Config{Service: Fixed(20 * time.Second), Speed: 4}, func(t *testing.T, s *testServer) {
		if got := elapsed(func() { s.ok(pathChat, helloRequest) }); got != 5*time.Second {
			t.Errorf("20 s at four times the speed took %v, want 5s", got)
		}
		if got := elapsed(func() { s.ok(pathChat, helloRequest, HeaderService, "2s") }); got != 500*time.Millisecond {
			t.Errorf("a call with its own service time took %v, want 500ms", got)
		}
		if got := elapsed(func() { s.do(http.MethodGet, pathModels, "", nil) }); got != 0 {
			t.Errorf("the models list took %v, want none", got)
		}
	})
	withSynctest(t, Config{}, func(t *testing.T, s *testServer) {
		if got := elapsed(func() { s.ok(pathChat, helloRequest) }); got != 0 {
			t.Errorf("without a service a call took %v", got)
		}
	})
}

func TestStreamIsSpreadOverTheServiceTime(t *testing.T) {
	withSynctest(t, Config{Service: Fixed(10 * time.Second)}, func(t *testing.T, s *testServer) {
		times, err := arrivals(t, s, pathChat, chatBody(`"stream":true`), HeaderChunks, "9")
		if err != nil {
			t.Fatal(err)
		}
		// A tenth passes before the first byte; nine chunks share the rest; the
		// finish and [DONE] come with the last.
		want := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10}
		if len(times) != len(want) {
			t.Fatalf("%d events, want %d", len(times), len(want))
		}
		for i, at := range times {
			if at != want[i]*time.Second {
				t.Errorf("event %d came at %v, want %v", i, at, want[i]*time.Second)
			}
		}
	})
}

func TestTokensServiceReadsTheRequest(t *testing.T) {
	withSynctest(t, Config{Service: Tokens{Prefill: 100, Decode: 10}}, func(t *testing.T, s *testServer) {
		// 400 bytes are 100 tokens: 30 ms + 1 s; then 20 tokens at 10/s.
		body := `{"max_tokens":20,"messages":[{"role":"user","content":"` + strings.Repeat("word", 100) + `"}]}`
		if got := elapsed(func() { s.ok(pathChat, body) }); got != 3030*time.Millisecond {
			t.Errorf("took %v, want 3.03s", got)
		}
	})
}

func TestSlotsQueueInsideTheStub(t *testing.T) {
	withSynctest(t, Config{Slots: 1, Service: Fixed(time.Second)}, func(t *testing.T, s *testServer) {
		done := make(chan time.Duration, 3)
		begin := time.Now()
		for range 3 {
			go func() {
				s.post(pathChat, helloRequest)
				done <- time.Since(begin)
			}()
		}
		for i := range 3 {
			if got, want := <-done, time.Duration(i+1)*time.Second; got != want {
				t.Errorf("call %d ended at %v, want %v", i, got, want)
			}
		}
	})
}

func TestTimedFaults(t *testing.T) {
	withSynctest(t, Config{Speed: 2}, func(t *testing.T, s *testServer) {
		if got := elapsed(func() { s.ok(pathChat, helloRequest, HeaderFault, "latency=4s") }); got != 2*time.Second {
			t.Errorf("latency=4s at twice the speed took %v, want 2s", got)
		}
		if got := elapsed(func() { s.post(pathChat, helloRequest, HeaderFault, "latency=4s;status=500") }); got != 2*time.Second {
			t.Errorf("a late status took %v, want 2s", got)
		}
		var r result
		took := elapsed(func() { r = s.ok(pathEmbeddings, `{"input":"a","dimensions":1}`, HeaderFault, "drip=20ms") })
		if want := time.Duration(len(r.body)-1) * 10 * time.Millisecond; took != want {
			t.Errorf("%d bytes dripped in %v, want %v", len(r.body), took, want)
		}
		times, err := arrivals(t, s, pathChat, chatBody(`"stream":true`), HeaderChunks, "3", HeaderFault, "silence=40s;after=2")
		if err != nil || len(times) != 6 {
			t.Fatalf("%d events, error %v: want 6", len(times), err)
		}
		for i, at := range times {
			if quiet := at == 0; quiet != (i < 2) || (!quiet && at != 20*time.Second) {
				t.Errorf("event %d came at %v, want the first two at once and the others after 20s", i, at)
			}
		}
	})
}

func TestPacingContinuesAfterSilence(t *testing.T) {
	withSynctest(t, Config{Service: Fixed(10 * time.Second)}, func(t *testing.T, s *testServer) {
		times, err := arrivals(t, s, pathChat, chatBody(`"stream":true`), HeaderChunks, "9", HeaderFault, "silence=60s;after=5")
		if err != nil || len(times) != 12 {
			t.Fatalf("%d events, error %v", len(times), err)
		}
		if times[4] != 5*time.Second || times[5] != 66*time.Second || times[9] != 70*time.Second {
			t.Errorf("events came at %v", times)
		}
	})
}

func TestDripOfAStreamCanBeCompressed(t *testing.T) {
	withSynctest(t, Config{}, func(t *testing.T, s *testServer) {
		plain := s.ok(pathChat, streamBody)
		packed := s.ok(pathChat, streamBody, HeaderFault, "drip=1ms", HeaderEncoding, "zstd")
		got, err := decodeBody("zstd", []byte(packed.body), DefaultMaxBody)
		if err != nil || string(got) != plain.body {
			t.Errorf("error %v; %d bytes, want %d", err, len(got), len(plain.body))
		}
	})
}

func TestHangIsBounded(t *testing.T) {
	withSynctest(t, Config{Speed: 10, Slots: 1}, func(t *testing.T, s *testServer) {
		for i, fault := range []string{"hang", "hang_after=1", "reset", "reset_after=1", "malformed"} {
			var r result
			took := elapsed(func() { r = s.post(pathChat, streamBody, HeaderFault, fault) })
			want := time.Duration(0)
			if strings.HasPrefix(fault, "hang") {
				want = MaxFaultDelay / 10
			}
			if r.err == nil || took != want {
				t.Errorf("%s ended after %v with error %v, want %v and a broken connection", fault, took, r.err, want)
			}
			synctest.Wait()
			if got := s.Stats(); got.Faulted != int64(i+1) || got.Serving != 0 {
				t.Errorf("%s: stats %+v", fault, got)
			}
		}
	})
}
