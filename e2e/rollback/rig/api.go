package rig

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

// Change is a change of mode, as the audit and replies to orders show it.
type Change struct {
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

// Reply is what an order came to, from the API or a command with --json.
type Reply struct {
	Recorded bool     `json:"recorded"`
	Changes  []Change `json:"changes"`
	Way      string   `json:"way"`     // commands only: api or request
	Request  int64    `json:"request"` // commands only
	Waits    bool     `json:"waits"`   // commands only: it counts at the next start
	Undo     []string `json:"undo"`    // commands only
}

// Pooled is how a pool stands.
type Pooled struct {
	Name         string `json:"name"`
	Mode         string `json:"mode"`
	ModeBy       string `json:"mode_by"`
	ModeReason   string `json:"mode_reason"`
	ModeRecorded *bool  `json:"mode_recorded"`
	Workers      int    `json:"workers"`
	InFlight     int    `json:"in_flight"`
	QueueDepth   int    `json:"queue_depth"`
}

// Page is a page of the audit, newest first.
type Page struct {
	Items []Change `json:"items"`
	Next  string   `json:"next"`
}

// callTime bounds a call of the API: an order waits 2 s for its record.
const callTime = 30 * time.Second

var client = &http.Client{Timeout: callTime}

// Token reads the admin token of a folder.
func Token(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(Data(dir), "headgate.token"))
	return strings.TrimSpace(string(text)), err
}

// Call asks the admin API and reads the answer into out. It may be called from
// any goroutine.
func (r *Rig) Call(method, path, body string, out any) error {
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
	res, err := client.Do(q)
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

// Order changes the mode of all pools by the API.
func (r *Rig) Order(mode string) (Reply, error) {
	var reply Reply
	return reply, r.Call(http.MethodPut, "mode", fmt.Sprintf(`{"mode":%q,"reason":"test"}`, mode), &reply)
}

// Status returns how the pools stand, by name.
func (r *Rig) Status(t testing.TB) map[string]Pooled {
	t.Helper()
	var status struct{ Pools []Pooled }
	if err := r.Call(http.MethodGet, "status", "", &status); err != nil {
		t.Fatal(err)
	}
	pools := map[string]Pooled{}
	for _, p := range status.Pools {
		pools[p.Name] = p
	}
	return pools
}

// AwaitRecord waits until the modes of all pools are recorded: what was left for a
// start is carried out before the first task, and recorded after.
func (r *Rig) AwaitRecord(t testing.TB) {
	t.Helper()
	harness.Until(t, "the modes are recorded", func() bool {
		for _, p := range r.Status(t) {
			if p.ModeRecorded == nil || !*p.ModeRecorded {
				return false
			}
		}
		return true
	})
}

// Audit returns the newest changes, as the API has them.
func (r *Rig) Audit(t testing.TB) []Change {
	t.Helper()
	var page Page
	if err := r.Call(http.MethodGet, "audit?kind=mode&limit=1000", "", &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}
