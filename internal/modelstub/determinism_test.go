package modelstub

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// allRequests has each endpoint, streamed and not.
func allRequests() [][2]string {
	calls := [][2]string{
		{pathEmbeddings, `{"input":["a","b"],"dimensions":8}`},
		{pathEmbeddings, `{"input":"a","dimensions":8,"encoding_format":"base64"}`},
	}
	for _, stream := range []string{"false", "true"} {
		calls = append(calls,
			[2]string{pathChat, chatBody(`"n":2,"stream":` + stream)},
			[2]string{pathChat, chatBody(`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f"}}],"stream":` + stream)},
			[2]string{pathCompletions, `{"prompt":"a","stream":` + stream + `}`},
			[2]string{pathResponses, `{"input":"a","stream":` + stream + `}`})
	}
	return calls
}

// withoutVolatile is the part of an answer that must repeat.
func withoutVolatile(r result) string {
	h := r.header.Clone()
	h.Del("Date")
	return fmt.Sprint(h, r.body)
}

func TestAnswersFollowFromSeedAndRequest(t *testing.T) {
	one, same, other := newTestServer(t, Config{Seed: 1}), newTestServer(t, Config{Seed: 1, Slots: 2}), newTestServer(t, Config{Seed: 2})
	for _, call := range allRequests() {
		path, body := call[0], call[1]
		first := one.ok(path, body)
		if again := one.ok(path, body); withoutVolatile(again) != withoutVolatile(first) {
			t.Errorf("%s %s: the second answer differs", path, body)
		}
		same.post(pathChat, helloRequest) // what else a stub answers does not matter
		if again := same.ok(path, body); withoutVolatile(again) != withoutVolatile(first) {
			t.Errorf("%s %s: another stub of the same seed answers differently", path, body)
		}
		if path == pathEmbeddings {
			continue // follow from the input alone
		}
		if differs := other.ok(path, body); differs.body == first.body {
			t.Errorf("%s %s: another seed gives the same answer", path, body)
		}
		if differs := one.ok(path, strings.Replace(body, "{", `{"user":"x",`, 1)); differs.body == first.body {
			t.Errorf("%s %s: another request gives the same answer", path, body)
		}
	}
}

func TestServiceTimesFollowFromSeedAndOrder(t *testing.T) {
	series := func(seed uint64) (times []time.Duration) {
		withSynctest(t, Config{Seed: seed, Service: Uniform{Low: 5 * time.Second, High: 30 * time.Second}}, func(t *testing.T, s *testServer) {
			for range 300 {
				times = append(times, elapsed(func() { s.ok(pathEmbeddings, `{"input":"a","dimensions":1}`) }))
			}
		})
		return times
	}
	first := series(1)
	if !slices.Equal(first, series(1)) {
		t.Error("the same seed gave other service times")
	}
	if slices.Equal(first, series(2)) {
		t.Error("another seed gave the same service times")
	}
	var sum time.Duration
	for _, d := range first {
		sum += d
	}
	wantWithin(t, "mean service time of equal calls", sum/300, 17500*time.Millisecond, 0.06)
}

func TestChunksHeader(t *testing.T) {
	s := newTestServer(t, Config{})
	count := func(path, body, chunks, marker string) int {
		return strings.Count(s.ok(path, body, HeaderChunks, chunks).body, marker)
	}
	for _, n := range []int{1, 5, 300} {
		want := fmt.Sprint(n)
		if got := count(pathCompletions, `{"prompt":"a","stream":true}`, want, `"choices":[{"text":`); got != n {
			t.Errorf("completions: %d chunks, want %d", got, n)
		}
		if got := count(pathResponses, `{"input":"a","stream":true}`, want, "event: response.output_text.delta"); got != n {
			t.Errorf("responses: %d chunks, want %d", got, n)
		}
		if got := count(pathChat, chatBody(`"stream":true`), want, `"delta":{"content":`); got != n {
			t.Errorf("chat: %d chunks, want %d", got, n)
		}
	}
	if got := count(pathChat, chatBody(`"stream":true,"max_tokens":2000`), "", `"delta":{"content":`); got != defaultChunks {
		t.Errorf("a long answer came in %d chunks, want %d", got, defaultChunks)
	}
}

func TestLargeBodies(t *testing.T) {
	s := newTestServer(t, Config{})
	for _, size := range []int{32_769, 1_100_000} {
		body := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
		v := decode(t, s.ok(pathChat, body).body)
		if got := jsonAt(t, v, "usage", "prompt_tokens"); got != float64(size/4) {
			t.Errorf("%d bytes of prompt are %v tokens, want %d", size, got, size/4)
		}
	}
	image := `{"messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:` +
		strings.Repeat("A", 400_000) + `"}}]}]}`
	if got := jsonAt(t, decode(t, s.ok(pathChat, image).body), "usage", "prompt_tokens").(float64); got < 100_000 {
		t.Errorf("an image counts with its bytes, got %v tokens", got)
	}
	if r := s.do(http.MethodPost, pathChat, helloRequest, nil); r.err != nil {
		t.Error(r.err)
	}
}
