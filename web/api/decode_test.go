package api_test

import (
	"net/http"
	"strings"
	"testing"

	"headgate/proxy/admission"
)

func TestBodies(t *testing.T) {
	tests := []struct {
		name, body string
		header     http.Header
		status     int
		detail     string
	}{
		{"nothing", "", http.Header{"Content-Type": {"application/json"}}, 400, "must be a JSON object"},
		{"no type", `{"mode":"observe"}`, http.Header{"Content-Type": nil}, 415, "application/json"},
		{"a form", "mode=observe", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 415, "application/json"},
		{"plain text", `{"mode":"observe"}`, http.Header{"Content-Type": {"text/plain"}}, 415, "application/json"},
		{"other charset", `{"mode":"observe"}`, http.Header{"Content-Type": {"application/json; charset=utf-16"}}, 415, "application/json"},
		{"compressed", `{"mode":"observe"}`, http.Header{"Content-Encoding": {"gzip"}}, 415, "Content-Encoding"},
		{"a list", `[{"mode":"observe"}]`, nil, 400, "must be a JSON object"},
		{"null", `null`, nil, 400, "must be a JSON object"},
		{"cut off", `{"mode":"observe"`, nil, 400, "is not JSON from byte"},
		{"two objects", `{"mode":"observe"}{"mode":"enforce"}`, nil, 400, "must end with"},
		{"a key twice", `{"mode":"observe","mode":"enforce"}`, nil, 400, `has the key "mode" twice`},
		{"a key in capitals", `{"Mode":"observe"}`, nil, 400, `"Mode" that is not known: there are drop_overdue, dry_run, expected, mode, reason`},
		{"an escaped key twice", `{"mode":"observe","m\u006fde":"enforce"}`, nil, 400, "twice"},
		{"unknown key", `{"mode":"observe","evil":1}`, nil, 400, `"evil" that is not known`},
		{"long unknown key", `{"` + strings.Repeat("k", 5000) + `":1}`, nil, 400, "that is not known"},
		{"null mode", `{"mode":null}`, nil, 400, `must have a string for "mode"`},
		{"number", `{"mode":1}`, nil, 400, `must have a string for "mode"`},
		{"text for a bool", `{"mode":"observe","dry_run":"true"}`, nil, 400, `must have true or false for "dry_run"`},
		{"no mode", `{}`, nil, 400, "mode must be enforce, observe, passthrough or restore"},
		{"unknown mode", `{"mode":"off"}`, nil, 400, "mode must be"},
		{"unknown expected", `{"mode":"observe","expected":"restore"}`, nil, 400, "expected must be"},
		{"drop in passthrough", `{"mode":"passthrough","drop_overdue":true}`, nil, 400, "drop_overdue"},
		{"two lines of reason", `{"mode":"observe","reason":"a\nb"}`, nil, 400, "reason must be one line"},
		{"escape in reason", `{"mode":"observe","reason":"\u001b[2J"}`, nil, 400, "reason must be one line"},
		{"right-to-left in reason", `{"mode":"observe","reason":"\u202e"}`, nil, 400, "reason must be one line"},
		{"long reason", `{"mode":"observe","reason":"` + strings.Repeat("é", 501) + `"}`, nil, 400, "at most 500 characters, has 501"},
		{"not UTF-8", "{\"mode\":\"observe\",\"reason\":\"\xff\"}", nil, 400, "must be UTF-8"},
		{"actor in two lines", `{"mode":"observe"}`, http.Header{"Headgate-Actor": {"a\tb"}}, 400, "Headgate-Actor must be one line"},
		{"long actor", `{"mode":"observe"}`, http.Header{"Headgate-Actor": {strings.Repeat("a", 101)}}, 400, "at most 100 characters"},
		{"too large", `{"reason":"` + strings.Repeat("a", 64<<10) + `"}`, nil, 413, "at most 65536 bytes"},
		{"deep", `{"mode":` + strings.Repeat("[", 60_000) + `}`, nil, 400, "is not JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newFixture(t)
			p := r.problem(r.request(testRequest{method: "PUT", path: "/api/v1/mode", body: tt.body, header: tt.header}), tt.status)
			if !strings.Contains(p.Detail, tt.detail) || len(p.Detail) > 300 {
				t.Errorf("detail %q, want %q", p.Detail, tt.detail)
			}
			if r.Mode("a") != admission.Enforce {
				t.Error("the mode was changed")
			}
		})
	}
}

func TestGoodBodies(t *testing.T) {
	for _, tt := range []struct{ name, body, media string }{
		{"plain", `{"mode":"observe"}`, "application/json"},
		{"charset", `{"mode":"observe"}`, "application/json; charset=UTF-8"},
		{"spaces", " \n{ \"reason\" : \"caf\u00e9 \u2014 ok\", \"mode\" : \"observe\" } \n", "application/json"},
		{"longest reason", `{"mode":"observe","reason":"` + strings.Repeat("é", 500) + `"}`, "application/json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newFixture(t)
			w := r.request(testRequest{method: "PUT", path: "/api/v1/mode", body: tt.body, header: http.Header{"Content-Type": {tt.media}}})
			if w.Code != http.StatusOK || r.Mode("a") != admission.Observe {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
}
