package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/internal/testkit"
)

// apiClient has a time limit for one call of the API. A mode change waits up to 2 s for
// its record.
var apiClient = &http.Client{Timeout: testkit.Timeout(30 * time.Second)}

// TokenFile is the path of the admin token of a gate that runs in a folder.
func TokenFile(dir string) string { return filepath.Join(DataDir(dir), "headgate.token") }

// Token reads the admin token. It may be called from any goroutine.
func (g *Gate) Token() (string, error) {
	text, err := os.ReadFile(TokenFile(g.Dir()))
	return strings.TrimSpace(string(text)), err
}

// Call calls the admin API (a path below /api/v1/) and decodes the reply into out, unless
// out is nil. It may be called from any goroutine.
func (g *Gate) Call(method, path, body string, out any) error {
	token, err := g.Token()
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, g.Admin+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := apiClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, bytes.TrimSpace(text))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// Get reads a path of the admin API.
func Get[T any](t testing.TB, g *Gate, path string) (reply T) {
	t.Helper()
	if err := g.Call(http.MethodGet, path, "", &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

// Post posts to a path of the admin API.
func Post[T any](t testing.TB, g *Gate, path, body string) (reply T) {
	t.Helper()
	if err := g.Call(http.MethodPost, path, body, &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

// SetMode changes the mode of all pools by the API.
func (g *Gate) SetMode(mode string) (reply ModeReply, err error) {
	return reply, g.Call(http.MethodPut, "mode", fmt.Sprintf(`{"mode":%q,"reason":"test"}`, mode), &reply)
}

// Status returns the status of the pools, by name.
func (g *Gate) Status(t testing.TB) map[string]PoolStatus {
	t.Helper()
	pools := map[string]PoolStatus{}
	for _, p := range Get[struct{ Pools []PoolStatus }](t, g, "status").Pools {
		pools[p.Name] = p
	}
	return pools
}

// AwaitRecorded waits until the modes of all pools are recorded: a request from before
// the start is applied before the first task and recorded after it.
func (g *Gate) AwaitRecorded(t testing.TB) {
	t.Helper()
	Eventually(t, "the modes are recorded", func() bool {
		for _, p := range g.Status(t) {
			if p.ModeRecorded == nil || !*p.ModeRecorded {
				return false
			}
		}
		return true
	})
}

// Audit returns the mode changes of the audit, newest first.
func (g *Gate) Audit(t testing.TB) []ModeChange {
	t.Helper()
	return Get[List[ModeChange]](t, g, "audit?kind=mode&limit=1000").Items
}

// AuditEntries returns the entries of the audit of a kind, newest first.
func (g *Gate) AuditEntries(t testing.TB, kind string) []AuditEntry {
	t.Helper()
	return Get[List[AuditEntry]](t, g, "audit?kind="+kind+"&limit=1000").Items
}
