package rollbacktest

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

	"headgate/e2e/harness"
)

// ModeChange is a change of mode, as the audit and replies to orders show it.
type ModeChange struct {
	ID      string `json:"id"`
	At      string `json:"at"`
	Pool    string `json:"pool"`
	Action  string `json:"action"`
	From    string `json:"from"`
	To      string `json:"to"`
	Actor   string `json:"actor"`
	Via     string `json:"via"`
	Reason  string `json:"reason"`
	Running int    `json:"running"`
	Queued  int    `json:"queued"`
	Request int64  `json:"request"`
	Writer  string `json:"writer"`
}

// ModeResult is what an order came to, from the API or a command with --json.
type ModeResult struct {
	Recorded     bool         `json:"recorded"`
	Changes      []ModeChange `json:"changes"`
	Path         string       `json:"path"`          // commands only: api or request
	Request      int64        `json:"request"`       // commands only
	Deferred     bool         `json:"deferred"`      // commands only: it counts at the next start
	UndoCommands []string     `json:"undo_commands"` // commands only
}

// PoolStatus is how a pool stands.
type PoolStatus struct {
	Name         string `json:"name"`
	Mode         string `json:"mode"`
	ModeBy       string `json:"mode_by"`
	ModeReason   string `json:"mode_reason"`
	ModeRecorded *bool  `json:"mode_recorded"`
	Workers      int    `json:"workers"`
	InFlight     int    `json:"in_flight"`
	QueueDepth   int    `json:"queue_depth"`
}

// AuditPage is a page of the audit, newest first.
type AuditPage struct {
	Items []ModeChange `json:"items"`
	Next  string       `json:"next"`
}

// apiTimeout bounds a call of the API: an order waits 2 s for its record.
const apiTimeout = 30 * time.Second

var apiClient = &http.Client{Timeout: apiTimeout}

// Token reads the admin token of a folder.
func Token(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(DataDir(dir), "headgate.token"))
	return strings.TrimSpace(string(text)), err
}

// Call asks the admin API and reads the answer into out. It may be called from
// any goroutine.
func (r *Instance) Call(method, path, body string, out any) error {
	token, err := Token(r.Dir)
	if err != nil {
		return err
	}
	q, err := http.NewRequest(method, r.Admin+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	res, err := apiClient.Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, out)
}

// SetMode changes the mode of all pools by the API.
func (r *Instance) SetMode(mode string) (ModeResult, error) {
	var reply ModeResult
	return reply, r.Call(http.MethodPut, "mode", fmt.Sprintf(`{"mode":%q,"reason":"test"}`, mode), &reply)
}

// Status returns how the pools stand, by name.
func (r *Instance) Status(t testing.TB) map[string]PoolStatus {
	t.Helper()
	var status struct{ Pools []PoolStatus }
	if err := r.Call(http.MethodGet, "status", "", &status); err != nil {
		t.Fatal(err)
	}
	pools := map[string]PoolStatus{}
	for _, p := range status.Pools {
		pools[p.Name] = p
	}
	return pools
}

// AwaitRecorded waits until the modes of all pools are recorded: what was left for a
// start is carried out before the first task, and recorded after.
func (r *Instance) AwaitRecorded(t testing.TB) {
	t.Helper()
	harness.Eventually(t, "the modes are recorded", func() bool {
		for _, p := range r.Status(t) {
			if p.ModeRecorded == nil || !*p.ModeRecorded {
				return false
			}
		}
		return true
	})
}

// Audit returns the newest changes, as the API has them.
func (r *Instance) Audit(t testing.TB) []ModeChange {
	t.Helper()
	var page AuditPage
	if err := r.Call(http.MethodGet, "audit?kind=mode&limit=1000", "", &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}
