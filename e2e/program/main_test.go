package program

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"headgate/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// reply is a complete answer.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// send posts a chat request. It may be called from any goroutine.
func send(ctx context.Context, url string, header map[string]string) reply {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(harness.ChatRequest))
	if err != nil {
		return reply{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	transport := &http.Transport{} // its own, so that no connection is shared
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(r)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body), err}
}

// pendingReply is a request in flight.
type pendingReply struct {
	answer chan reply
	cancel func()
}

// sendAsync posts a chat request and does not wait for the answer.
func sendAsync(t *testing.T, url string, header map[string]string) pendingReply {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := pendingReply{make(chan reply, 1), cancel}
	var done sync.WaitGroup
	done.Go(func() { l.answer <- send(ctx, url, header) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return l
}

// writeSettings writes a settings file into a new folder.
func writeSettings(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "headgate.yaml")
	harness.WriteFile(t, path, text)
	return path
}

// listFiles lists all files in a folder except those of the data directory.
func listFiles(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if name, _, _ := strings.Cut(strings.TrimPrefix(path, dir+"/"), "/"); path != dir && name != "data" {
			all = append(all, path[len(dir)+1:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// decodeError decodes an error in OpenAI's format, which has four keys.
func decodeError(t *testing.T, r reply) (kind, code string) {
	t.Helper()
	var body struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Fatalf("no error object in %q: %v", r.body, err)
	}
	for _, key := range []string{"message", "type", "param", "code"} {
		if _, ok := body.Error[key]; !ok {
			t.Errorf("error without %q: %s", key, r.body)
		}
	}
	kind, _ = body.Error["type"].(string)
	code, _ = body.Error["code"].(string)
	return kind, code
}
