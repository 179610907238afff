package api

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParseObject: what is accepted means the same to encoding/json, and what is
// refused is named in one bounded line.
func FuzzParseObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"mode":"a","dry_run":true}`, `{"mode":"a","mode":"b"}`, `{"mode":null}`, `[`, `{"a":1}`, `{"mode":"\ud800"}`, `{"mode":"a"} x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var m ModeRequest
		err := parseObject(body, map[string]any{"mode": &m.Mode, "dry_run": &m.DryRun})
		if err != nil {
			if text := err.Error(); len(text) > 400 || strings.ContainsAny(text, "\n\x1b") {
				t.Fatalf("refused with %q", text)
			}
			return
		}
		var again ModeRequest
		if err := json.Unmarshal(body, &again); err != nil || again != m {
			t.Fatalf("read as %+v, by encoding/json as %+v, %v", m, again, err)
		}
	})
}
