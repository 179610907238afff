package wire

import (
	"maps"
	"net/http"
	"strconv"
	"testing"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// testRequests are requests to every endpoint, streamed and not.
func testRequests() map[string]testRequest {
	return map[string]testRequest{
		"chat":                {path: "/v1/chat/completions", body: body(hello)},
		"chat choices":        {path: "/v1/chat/completions", body: body(hello, `"n":3`)},
		"chat stream":         {path: "/v1/chat/completions", body: body(hello, streamed)},
		"chat stream usage":   {path: "/v1/chat/completions", body: body(hello, streamed, usage)},
		"chat tools":          {path: "/v1/chat/completions", body: body(hello, tools)},
		"chat tools stream":   {path: "/v1/chat/completions", body: body(hello, tools, streamed)},
		"chat query":          {path: "/v1/chat/completions?api-version=2024-10-21&x=a%2Fb", body: body(hello)},
		"completions":         {path: "/v1/completions", body: body(`"prompt":"once"`)},
		"completions stream":  {path: "/v1/completions", body: body(`"prompt":"once"`, streamed)},
		"responses":           {path: "/v1/responses", body: body(`"input":"hello"`)},
		"responses stream":    {path: "/v1/responses", body: body(`"input":"hello"`, streamed)},
		"embeddings":          {path: "/v1/embeddings", body: body(`"input":["a","b"]`)},
		"embeddings base64":   {path: "/v1/embeddings", body: body(`"input":"a"`, `"encoding_format":"base64"`)},
		"unknown fields":      {path: "/v1/chat/completions", body: body(hello, `"x_new":{"a":[1,null,"é"]}`)},
		"refused by upstream": {path: "/v1/chat/completions", body: body(`"messages":[]`)},
		"spaces and newlines": {path: "/v1/chat/completions", body: "\n {\t\"model\" : \"stub-model\",\r\n" + hello + "}\n"},
		"chat 32769 bytes":    {path: "/v1/chat/completions", body: body(`"messages":[{"role":"user","content":"` + repeated("word ", 32769) + `"}]`)},
		"chat 1.1 MB":         {path: "/v1/chat/completions", body: body(`"messages":[{"role":"user","content":"`+repeated("word ", 1_100_000)+`"}]`, streamed)},
	}
}

func TestEveryEndpointEqual(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{}, harness.Settings{})
	for name, a := range testRequests() {
		for _, encoding := range []string{"", "gzip", "br", "zstd"} {
			for _, trailer := range []string{"", "yes"} {
				t.Run(name+" "+encoding+" trailer="+trailer, func(t *testing.T) {
					a := a
					a.header = map[string]string{"Stub-Encoding": encoding, "Stub-Trailer": trailer, "Accept-Encoding": "gzip, br, zstd"}
					direct, gated := p.both(t, a)
					if direct.Body == "" || direct.Broken || gated.Broken {
						t.Fatalf("there is nothing to compare: direct %+v\ngated %+v", direct, gated)
					}
					if trailer != "" && direct.Status == http.StatusOK && direct.Trailer.Get(modelstub.TrailerChecksum) == "" {
						t.Fatal("the stub sent no trailer")
					}
					wantEqualResponse(t, direct, gated)
				})
			}
		}
	}
	harness.Eventually(t, "every task is counted as completed", func() bool {
		m := p.gate.Scrape(t)
		return m.Sum("headgate_arrivals_total") == float64(len(testRequests())*8) &&
			m.Sum("headgate_tasks_total", "outcome", "completed") == float64(len(testRequests())*8)
	})
}

func TestUnusualStreamsEqual(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{}, harness.Settings{})
	odd := modelstub.EdgeCaseStreams()
	for _, o := range odd {
		t.Run(o.Name, func(t *testing.T) {
			direct, gated := p.both(t, testRequest{
				path: "/v1/chat/completions", body: body(hello, streamed), header: map[string]string{"Stub-Stream": o.Name},
			})
			if direct.Body != string(o.Bytes()) {
				t.Fatalf("the stub itself sent %q, want %q", direct.Body, o.Bytes())
			}
			wantEqualResponse(t, direct, gated)
			if got := gated.Header.Get("X-Accel-Buffering"); got != "no" {
				t.Errorf("X-Accel-Buffering = %q, want no", got)
			}
		})
	}
	harness.Eventually(t, "every odd stream is counted as completed", func() bool {
		return p.gate.Scrape(t).Sum("headgate_tasks_total", "outcome", "completed") == float64(len(odd))
	})
}

func TestUnusualCompleteAnswersEqual(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{}, harness.Settings{})
	stream := testRequest{path: "/v1/chat/completions", body: body(hello, streamed)}
	plain := testRequest{path: "/v1/chat/completions", body: body(hello)}
	for _, c := range []struct {
		ask   testRequest
		fault string
	}{
		{stream, "error_event=3"}, {plain, "error_event=3"}, {stream, "silence=200ms;after=2"}, {plain, "drip=100us"},
		{plain, "status=400"}, {plain, "status=401"}, {plain, "status=403"}, {plain, "status=404"}, {plain, "status=409"},
		{plain, "status=422"}, {plain, "status=429"}, {stream, "status=429;retry_after=7"}, {plain, "status=429;retry_after=0"},
		{plain, "status=429;retry_after=Wed, 21 Oct 2015 07:28:00 GMT"}, {plain, "status=500"}, {stream, "status=503"},
		{plain, "status=503;retry_after=3"}, {plain, "status=529"},
	} {
		t.Run(c.fault+" "+strconv.Itoa(len(c.ask.body)), func(t *testing.T) {
			c.ask.header = map[string]string{"Stub-Fault": c.fault}
			direct, gated := p.both(t, c.ask)
			wantEqualResponse(t, direct, gated)
			if gated.Header.Get("Headgate-Reason") != "" {
				t.Error("an answer of the upstream looks like a refusal of ours")
			}
		})
	}
	m := p.gate.Scrape(t)
	if got := m.Sum("headgate_refusals_total"); got != 0 {
		t.Errorf("%v refusals counted as ours, want none", got)
	}
	if got := m.Sum("headgate_upstream_refusals_total"); got != 4 {
		t.Errorf("%v refusals of the upstream counted, want 4", got)
	}
}

func TestModelsEqual(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{Models: []string{"one", "two"}}, harness.Settings{Workers: 1})
	direct, gated := p.both(t, testRequest{method: http.MethodGet, path: "/v1/models"})
	gated.Header.Set("Headgate-Task-Id", "not a task") // so it has none
	wantEqualResponse(t, direct, gated)
	if gated.Status != http.StatusOK {
		t.Errorf("status %d, want 200", gated.Status)
	}
	// HEAD is answered from the shared list, although this upstream takes GET only.
	_, head := p.both(t, testRequest{method: http.MethodHead, path: "/v1/models"})
	if head.Status != http.StatusOK || head.Length != gated.Length || head.Body != "" {
		t.Errorf("HEAD: status %d, length %d, body %q, want those of GET without the body", head.Status, head.Length, head.Body)
	}
}

// The upstream receives the bytes that the client sent, compressed or not.
func TestRequestArrivesAsSent(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{}, harness.Settings{})
	header := map[string]string{
		"Authorization": "Bearer made-up-key", "X-Custom": "ä b", "Openai-Organization": "org", "User-Agent": "agent/1",
		"X-Stainless-Retry-Count": "0", "Accept": "text/event-stream", "Cookie": "a=b",
	}
	packed := maps.Clone(header)
	packed["Content-Encoding"] = "gzip"
	for name, a := range testRequests() {
		for encoding, a := range map[string]testRequest{
			"plain": {path: a.path, body: a.body, header: header},
			"gzip":  {path: a.path, body: gzipped(t, a.body), header: packed},
		} {
			t.Run(name+" "+encoding, func(t *testing.T) {
				before := len(p.stub.Requests())
				p.both(t, a)
				seen := p.stub.Requests()[before:]
				if len(seen) != 2 {
					t.Fatalf("the stub saw %d requests, want 2", len(seen))
				}
				wantEqualRequest(t, seen[0], seen[1], a.body)
			})
		}
	}
}
