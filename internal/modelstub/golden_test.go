package modelstub

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGoldenAnswers pins the bytes of one answer of every shape, so that a
// change of what goes over the wire is seen and meant.
func TestGoldenAnswers(t *testing.T) {
	const tool = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"required":["city"]}}}],"tool_choice":"required"`
	const flat = `"tools":[{"type":"function","name":"weather","parameters":{"required":["city"]}}],"tool_choice":"required"`
	tests := []struct{ name, path, body string }{
		{"chat.json", pathChat, chatBody(`"max_tokens":4`)},
		{"chat.sse", pathChat, chatBody(`"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}`)},
		{"chat-tool.json", pathChat, chatBody(tool)},
		{"chat-tool.sse", pathChat, chatBody(tool + `,"stream":true`)},
		{"completions.json", pathCompletions, `{"model":"m","prompt":"once","max_tokens":4}`},
		{"completions.sse", pathCompletions, `{"model":"m","prompt":"once","max_tokens":4,"stream":true}`},
		{"responses.json", pathResponses, `{"model":"m","input":"hi","max_output_tokens":4}`},
		{"responses.sse", pathResponses, `{"model":"m","input":"hi","max_output_tokens":4,"stream":true}`},
		{"responses-tool.json", pathResponses, `{"model":"m","input":"hi",` + flat + `}`},
		{"responses-tool.sse", pathResponses, `{"model":"m","input":"hi",` + flat + `,"stream":true}`},
		{"embeddings.json", pathEmbeddings, `{"model":"m","input":["a","b"],"dimensions":3}`},
		{"embeddings-base64.json", pathEmbeddings, `{"model":"m","input":"a","dimensions":3,"encoding_format":"base64"}`},
	}
	s := newTestServer(t, Config{Seed: 1})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.ok(tt.path, tt.body).body
			file := filepath.Join("testdata", tt.name)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("differs from %s (-want +got):\n%s", file, diff)
			}
		})
	}
}
