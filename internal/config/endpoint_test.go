package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const poolHead = "pools:\n  - name: a\n    upstream: http://127.0.0.1:8080"

func TestEndpoints(t *testing.T) {
	c, err := Parse("f.yaml", []byte(poolHead+"/v1\n    endpoints:\n      - /v1/rerank\n      - GET /v1/audio/*\n"+
		"      - \"* /v1/vector_stores/*\"\n      - POST /api/chat\n      - {match: POST /v1/embeddings, gate: false}\n"+
		"      - {match: GET /v1/slow, gate: true}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range c.Pools[0].Endpoints {
		gate := ""
		if e.Gate {
			gate = ", gated"
		}
		got = append(got, e.Method()+" "+e.Path()+gate)
	}
	want := []string{"POST /v1/rerank, gated", "GET /v1/audio/*", "* /v1/vector_stores/*", "POST /api/chat, gated",
		"POST /v1/embeddings", "GET /v1/slow, gated"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A base URL without /v1 gets a warning that says what will be asked for.
func TestUpstreamWithoutVersion(t *testing.T) {
	for base, warns := range map[string]bool{"": true, "/": true, "/openai": true, "/v1": false, "/v1/": false, "/v1beta/openai": false} {
		c, err := Parse("f.yaml", []byte(poolHead+base+"\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		asks := "http://127.0.0.1:8080" + strings.TrimRight(base, "/") + "/chat/completions"
		if lines := strings.Join(c.Forwarding(), ""); !strings.HasSuffix(lines, asks) {
			t.Errorf("%q: %s", base, lines)
		}
		if w := c.Warnings(); (len(w) == 1 && strings.Contains(w.Error(), asks)) != warns {
			t.Errorf("%q: warnings %v, want one %t", base, w, warns)
		}
	}
}
