package proxy

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
)

// withClient lets nobody in but the owner of a key.
func withClient(key string) func(*fixture) {
	return func(p *fixture) {
		p.config.Clients = []Client{
			{Name: "other", KeySHA256: sha256.Sum256([]byte("another key"))},
			{Name: "team", KeySHA256: sha256.Sum256([]byte(key))},
		}
	}
}

// captureHeaders records the headers of what reaches the stub.
func captureHeaders(p *fixture) <-chan http.Header {
	seen := make(chan http.Header, 100)
	p.stub = modelstub.Config{Tap: func(r *http.Request, _ []byte) { seen <- r.Header.Clone() }}
	return seen
}

func TestRejectedKeys(t *testing.T) {
	r := newTestProxy(t, withClient("right"))
	for name, header := range map[string][]string{
		"none":                        nil,
		"unknown":                     {"Authorization", "Bearer wrong"},
		"empty":                       {"Authorization", "Bearer "},
		"no scheme":                   {"Authorization", "right"},
		"another scheme":              {"Authorization", "Basic right"},
		"part of it":                  {"Authorization", "Bearer righ"},
		"more than it":                {"Authorization", "Bearer rightt"},
		"its hash":                    {"Authorization", "Bearer 6dbeb0f3c0fd1a3b2b5e2fd1b6a5d4b6"},
		"huge":                        {"Authorization", "Bearer " + strings.Repeat("x", 50<<10)},
		"in another case":             {"Authorization", "Bearer RIGHT"},
		"an unknown one in x-api-key": {"X-Api-Key", "wrong"},
		"with a scheme in api-key":    {"Api-Key", "Bearer right"},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.chat(header...)
			r.Helper()
			if e := r.wantErrorBody(a.body, "invalid_api_key"); a.status != http.StatusUnauthorized || e.Type != "invalid_request_error" {
				t.Errorf("status %d, error %+v", a.status, e)
			}
		})
	}
	if n := r.stub.Stats().Calls; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
	if n := r.recorder.outcomes(); n[admission.Invalid] != 12 {
		t.Errorf("outcomes %v", n)
	}
}

func TestModelsRequireKey(t *testing.T) {
	r := newTestProxy(t, withClient("right"))
	for key, status := range map[string]int{"wrong": http.StatusUnauthorized, "right": http.StatusOK} {
		req := must(http.NewRequest(http.MethodGet, r.server.url()+modelsPath, nil))
		req.Header.Set("Authorization", "Bearer "+key)
		if a := r.do(req); a.status != status {
			t.Errorf("key %s: status %d, want %d", key, a.status, status)
		}
	}
}

// Which Authorization the upstream sees.
func TestKeyThatGoesUpstream(t *testing.T) {
	for name, c := range map[string]struct {
		clients bool
		key     string // of the upstream
		sent    string
		want    string
	}{
		"the client's own":                 {false, "", "Bearer mine", "Bearer mine"},
		"none":                             {false, "", "", ""},
		"the pool's before the client's":   {false, "pool", "Bearer mine", "Bearer pool"},
		"the pool's alone":                 {false, "pool", "", "Bearer pool"},
		"a key of ours stays here":         {true, "", "Bearer ours", ""},
		"a key of ours gives the pool's":   {true, "pool", "Bearer ours", "Bearer pool"},
		"the scheme in any case":           {true, "pool", "bEARER  ours ", "Bearer pool"},
		"another scheme passes without us": {false, "", "Basic dTpw", "Basic dTpw"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen <-chan http.Header
			r := newTestProxy(t, func(p *fixture) {
				seen = captureHeaders(p)
				p.pool.UpstreamKey = c.key
				if c.clients {
					withClient("ours")(p)
				}
			})
			var header []string
			if c.sent != "" {
				header = []string{"Authorization", c.sent}
			}
			r.wantCompleted(r.chat(header...))
			if got := strings.Join((<-seen)["Authorization"], "|"); got != c.want {
				t.Errorf("upstream saw %q, want %q", got, c.want)
			}
			if o := r.task(1); (o.Client == "team") != c.clients {
				t.Errorf("client %q", o.Client)
			}
		})
	}
}

// The pool's key goes in the header that its upstream reads, in place of every key of
// the client.
func TestKeyHeader(t *testing.T) {
	for name, c := range map[string]struct{ header, authorization, apiKey, xAPIKey string }{
		"not set":   {"", "Bearer pool", "", ""},
		"bearer":    {"Authorization", "Bearer pool", "", ""},
		"azure":     {"api-key", "", "pool", ""},
		"anthropic": {"x-api-key", "", "", "pool"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen <-chan http.Header
			r := newTestProxy(t, func(p *fixture) {
				seen = captureHeaders(p)
				p.pool.UpstreamKey, p.pool.KeyHeader = "pool", c.header
			})
			r.wantCompleted(r.chat("Authorization", "Bearer mine", "api-key", "mine", "x-api-key", "mine"))
			h := <-seen
			for name, want := range map[string]string{"Authorization": c.authorization, "Api-Key": c.apiKey, "X-Api-Key": c.xAPIKey} {
				if got := strings.Join(h[name], "|"); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

// A client that may only do batch work cannot make its way to the front.
func TestBatchClientCannotUpgradeClass(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		withClient("k")(p)
		p.config.Clients[1].Class = admission.Batch
	})
	for i, asked := range []string{"interactive", "batch"} {
		r.wantCompleted(r.chat("Authorization", "Bearer k", priorityHeader, asked))
		if o := r.task(i + 1); o.Class != admission.Batch {
			t.Errorf("asked for %s, class %s", asked, o.Class)
		}
	}
}

// The base URL of an upstream may carry a path of its own.
func TestUpstreamBase(t *testing.T) {
	for base, want := range map[string]string{
		"http://h/v1":         "http://h/v1/chat/completions?a=b%2Fc",
		"http://h/v1/":        "http://h/v1/chat/completions?a=b%2Fc",
		"http://h":            "http://h/chat/completions?a=b%2Fc",
		"https://h:8/x/y%20z": "https://h:8/x/y%20z/chat/completions?a=b%2Fc",
	} {
		if got := joinUpstreamURL(must(url.Parse(base)), must(url.Parse(chatPath+"?a=b%2Fc"))).String(); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

func TestDeadlineForms(t *testing.T) {
	const slo = time.Minute
	cases := map[string]struct {
		header []string
		class  admission.Class
		want   time.Duration // 0: refused
	}{
		"nothing asked":            {nil, admission.Interactive, slo},
		"nothing asked, batch":     {nil, admission.Batch, slo},
		"seconds":                  {[]string{deadlineHeader, "5"}, admission.Interactive, 5 * time.Second},
		"part of a second":         {[]string{deadlineHeader, "0.25"}, admission.Interactive, 250 * time.Millisecond},
		"a Go duration":            {[]string{deadlineHeader, "1m30s"}, admission.Batch, 90 * time.Second},
		"the SLO bounds it":        {[]string{deadlineHeader, "90"}, admission.Interactive, slo},
		"batch gets what it asks":  {[]string{deadlineHeader, "3600"}, admission.Batch, time.Hour},
		"a day bounds batch":       {[]string{deadlineHeader, "1e300"}, admission.Batch, maxDeadline},
		"a day bounds durations":   {[]string{deadlineHeader, "2000h"}, admission.Batch, maxDeadline},
		"infinity is a day":        {[]string{deadlineHeader, "+Inf"}, admission.Batch, maxDeadline},
		"less than a nanosecond":   {[]string{deadlineHeader, "1e-30"}, admission.Batch, 1},
		"zero":                     {[]string{deadlineHeader, "0"}, admission.Batch, 0},
		"minus zero":               {[]string{deadlineHeader, "-0"}, admission.Batch, 0},
		"negative":                 {[]string{deadlineHeader, "-5"}, admission.Batch, 0},
		"negative duration":        {[]string{deadlineHeader, "-5s"}, admission.Batch, 0},
		"not a number":             {[]string{deadlineHeader, "NaN"}, admission.Batch, 0},
		"a word":                   {[]string{deadlineHeader, "soon"}, admission.Batch, 0},
		"a date":                   {[]string{deadlineHeader, "Fri, 31 Dec 1999 23:59:59 GMT"}, admission.Batch, 0},
		"beyond all numbers":       {[]string{deadlineHeader, "1e999"}, admission.Batch, 0},
		"the SDK's timeout":        {[]string{sdkTimeoutHeader, "7"}, admission.Interactive, 7 * time.Second},
		"the SDK's ten minutes":    {[]string{sdkTimeoutHeader, "600"}, admission.Interactive, slo},
		"the SDK says nothing":     {[]string{sdkTimeoutHeader, "never"}, admission.Interactive, slo},
		"the SDK is negative":      {[]string{sdkTimeoutHeader, "-1"}, admission.Interactive, slo},
		"ours before the SDK's":    {[]string{deadlineHeader, "5", sdkTimeoutHeader, "7"}, admission.Interactive, 5 * time.Second},
		"ours wrong, SDK's right":  {[]string{deadlineHeader, "x", sdkTimeoutHeader, "7"}, admission.Interactive, 0},
		"an SDK's Go-like timeout": {[]string{sdkTimeoutHeader, "7s"}, admission.Interactive, slo},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := make(http.Header)
			for i := 0; i < len(c.header); i += 2 {
				h.Set(c.header[i], c.header[i+1])
			}
			d, f := deadline(h, false, c.class, slo)
			if f == nil && c.want == 0 || f != nil && c.want != 0 || d != c.want {
				t.Errorf("%s (%v), want %s", d, f, c.want)
			}
			if f != nil && (f.status != http.StatusBadRequest || f.outcome != admission.Invalid) {
				t.Errorf("failure %+v", f)
			}
		})
	}
}

func TestWrongDeadlineIsToldBeforeTheBodyIsRead(t *testing.T) {
	r := newTestProxy(t, nil)
	r.wantFailure(r.post(chatPath, "{", deadlineHeader, "soon"), http.StatusBadRequest, "invalid_deadline")
	r.wantOutcome(admission.Invalid, http.StatusBadRequest)
}

func TestDeadlinePassesInTheQueue(t *testing.T) {
	cases := map[string]struct {
		header []string
		after  time.Duration
	}{
		"as asked":                      {[]string{deadlineHeader, "5s"}, 5 * time.Second},
		"as the SDK says":               {[]string{sdkTimeoutHeader, "9"}, 9 * time.Second},
		"the SLO":                       {nil, time.Minute},
		"the SLO, though more is asked": {[]string{deadlineHeader, "300"}, time.Minute},
		"batch, as asked":               {[]string{deadlineHeader, "300", priorityHeader, "batch"}, 5 * time.Minute},
	}
	for name, c := range cases {
		for kind, body := range map[string]string{"JSON": chat, "stream": stream} {
			t.Run(name+", "+kind, func(t *testing.T) {
				withSynctest(t, func(p *fixture) { withOneWorker(p); p.pool.IdleTimeout = time.Hour }, func(r *testProxy) {
					leave := r.occupy(1)
					began := time.Now()
					r.wantRefused(r.queueCalls(1, body, c.header...)[0].wait(), admission.ReasonDeadlinePassed)
					if d := time.Since(began).Truncate(10 * time.Millisecond); d != c.after {
						t.Errorf("turned away after %s, want %s", d, c.after)
					}
					leave()
					if n := r.stub.Stats().Calls; n != 1 {
						t.Errorf("%d calls went upstream, want only the one that ran", n)
					}
				})
			})
		}
	}
}

// Wherever the deadline passes before the upstream is asked, the client is told
// the same.
func TestDeadlinePassesBeforeTheUpstream(t *testing.T) {
	late := func() { time.Sleep(time.Second) }
	for name, hook := range map[string]func(*hookedPolicy){
		"before the queue":           func(*hookedPolicy) {},
		"between grant and dispatch": func(h *hookedPolicy) { h.onAdmit = late },
	} {
		t.Run(name, func(t *testing.T) {
			policy := hookedPolicy{Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}}
			hook(&policy)
			r := newTestProxy(t, func(p *fixture) { p.gate.Policy = policy })
			limit := "1ns"
			if policy.onAdmit != nil {
				limit = "500ms"
			}
			a := r.chat(deadlineHeader, limit)
			r.wantRefused(a, admission.ReasonDeadlinePassed)
			r.wantOutcome(admission.DeadlinePassed, http.StatusTooManyRequests)
			if n := r.stub.Stats().Calls; n != 0 {
				t.Errorf("%d calls went upstream", n)
			}
		})
	}
}

func TestPassThroughIgnoresDeadlines(t *testing.T) {
	withSynctest(t, func(p *fixture) { withOneWorker(p); p.gate.Mode = admission.PassThrough }, func(r *testProxy) {
		first := r.start(chatPath, chat, "Stub-Service", "100s")
		r.eventually("the first runs", func() bool { return r.heldResources().inFlight == 1 })
		late := r.queueCalls(5, chat, deadlineHeader, "1")
		r.wantCompleted(first.wait())
		for _, c := range late {
			r.wantCompleted(c.wait())
		}
		if n := r.sum("headgate_would_refuse_total"); n != 0 {
			t.Errorf("%v would have been refused: nobody asks the policy in pass-through", n)
		}
	})
}

func TestObserveCountsAndServes(t *testing.T) {
	withSynctest(t, func(p *fixture) { withOneWorker(p); p.gate.Mode = admission.Observe }, func(r *testProxy) {
		first := r.start(chatPath, chat, "Stub-Service", "26s")
		r.eventually("the first runs", func() bool { return r.heldResources().inFlight == 1 })
		late := r.queueCalls(1, chat, deadlineHeader, "1")
		late = append(late, r.queueCalls(2, chat)...)
		late = append(late, r.queueCalls(2, chat)...) // deeper than twice the workers
		r.wantCompleted(first.wait())
		for _, c := range late {
			r.wantCompleted(c.wait())
		}
		depth := r.sum("headgate_would_refuse_total", "reason", "queue_depth")
		passed := r.sum("headgate_would_refuse_total", "reason", "deadline_passed")
		if depth != 2 || passed != 1 || r.sum("headgate_refusals_total") != 0 {
			t.Errorf("would have refused %v for depth and %v for the deadline; refused %v", depth, passed, r.sum("headgate_refusals_total"))
		}
	})
}

// A mode that is changed while tasks wait counts from then on.
func TestRollbackWhileTasksWait(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		first := r.start(chatPath, chat, "Stub-Service", "100s")
		r.eventually("the first runs", func() bool { return r.heldResources().inFlight == 1 })
		late := r.queueCalls(1, chat, deadlineHeader, "50")[0]
		r.gate.SetMode(time.Now(), admission.PassThrough)
		r.wantCompleted(first.wait())
		r.wantCompleted(late.wait())
	})
}

func TestPriority(t *testing.T) {
	batchOnly := Client{Class: admission.Batch}
	for name, c := range map[string]struct {
		asked  string
		client Client
		want   admission.Class
		wrong  bool
	}{
		"nobody asks":                   {"", Client{}, admission.Interactive, false},
		"interactive":                   {"interactive", Client{}, admission.Interactive, false},
		"batch":                         {"batch", Client{}, admission.Batch, false},
		"batch client asks nothing":     {"", batchOnly, admission.Batch, false},
		"batch client asks for more":    {"interactive", batchOnly, admission.Batch, false},
		"batch client asks for its own": {"batch", batchOnly, admission.Batch, false},
		"a word":                        {"urgent", Client{}, 0, true},
		"another case":                  {"Batch", Client{}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			class, f := classFor(c.asked, c.client)
			if class != c.want || (f != nil) != c.wrong {
				t.Errorf("class %s (%v), want %s", class, f, c.want)
			}
		})
	}
}

// A task that never goes upstream can be found in the log all the same.
func TestTaskThatEndsEarlyHasATrace(t *testing.T) {
	r := newTestProxy(t, nil)
	r.wantFailure(r.post(chatPath, "{", "X-Request-Id", "mine"), http.StatusBadRequest, "invalid_json")
	seen := r.wantOutcome(admission.Invalid, http.StatusBadRequest)
	if seen.RequestID != "mine" || len(seen.TraceID) != 32 || strings.Trim(seen.TraceID, "0") == "" {
		t.Errorf("request %q, trace %q", seen.RequestID, seen.TraceID)
	}
	for _, id := range []string{seen.TaskID, "request=mine", "trace=" + seen.TraceID} {
		if !strings.Contains(r.logs.String(), id) {
			t.Errorf("%s is not in the log:\n%s", id, r.logs)
		}
	}
}
