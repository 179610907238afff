package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
	"headgate/internal/fakeslack"
)

// secrets are the secrets of the gate by name.
var secrets = map[string]string{
	"bot token":     "SECRETbottokenAAAA",
	"webhook":       "SECRETwebhookBBBB",
	"heartbeat URL": "SECRETheartbeatCCCC",
	"admin token":   "SECRETadmintokenDDDD-of-enough-letters-0123456789",
	"upstream key":  "SECRETupstreamEEEE",
	"client key":    "SECRETclientFFFF",
	"app token":     "SECRETapptokenGGGG",
	"signing":       "SECRETsigningHHHH",
}

// startRefusingServer starts a server that answers every request with an error that quotes it.
func startRefusingServer(t *testing.T, status int) (base string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an error changes nothing
		w.WriteHeader(status)
		fmt.Fprintf(w, "no %s %s %v %s", r.Method, r.URL, r.Header, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// After a run in which everything that uses a secret has failed, no secret is in a log, a file
// of the data directory, a metric, an answer or a message.
func TestSecretsDoNotLeak(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	slack.SetChannel(fakeslack.Channel{ID: alerttest.PageChannel, Name: "page", Member: true, Archived: true}) // so that the webhook is tried
	d, found := startWithSecrets(t, slack), &capturedOutput{}
	sendTasks(t, d, found)
	firing := d.AwaitFiring(t, "workers", "page")
	d.AwaitIncident(t, "workers", "refused by both", func(i harness.Incident) bool {
		tried := 0
		for _, x := range i.Deliveries {
			if x.State == "dead" || x.Attempts > 1 {
				tried++
			}
		}
		return tried > 1
	})
	slack.GoOffline()
	alerttest.Eventually(t, "heartbeats fail", func() bool { return d.Metric(t, "headgate_heartbeats_total", "result", "failed") > 0 })
	d.SetWorkers(t, 4, 1)
	d.AwaitEnded(t, "workers")
	readAdminPlane(t, d, firing.ID, found)
	runCommands(t, d, found)
	d.Reload(t)
	d = restart(t, d, os.Kill)
	d.AwaitEvaluations(t, 3)
	readAdminPlane(t, d, firing.ID, found)
	d.Stop(t)
	found.add("log after the restart", d.Stderr()+d.Stdout())
	found.addFiles(t, harness.DataDir(d.Dir()))
	found.wantNoSecrets(t)
}

// startWithSecrets starts a gate that has all secrets, and whose outgoing requests all fail.
func startWithSecrets(t *testing.T, slack *alerttest.Slack) *alerttest.Instance {
	t.Helper()
	sum := sha256.Sum256([]byte(secrets["client key"]))
	dir := t.TempDir()
	alerttest.Options{
		Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 0, 3)}, Workers: 4, Upstream: startRefusingServer(t, http.StatusInternalServerError),
		Pool: []string{"upstream_key: " + secrets["upstream key"]},
		Top: fmt.Sprintf("heartbeat: {url: %q, interval: 10s}\nclients: [{name: one, key_sha256: %s}]\n",
			startRefusingServer(t, http.StatusNotFound)+"/"+secrets["heartbeat URL"], hex.EncodeToString(sum[:])),
		Webhook: startRefusingServer(t, http.StatusForbidden) + "/services/T0/B0/" + secrets["webhook"],
		Slack:   fmt.Sprintf(", app_token: xapp-%s, signing_secret: %s, listen: \"127.0.0.1:0\"", secrets["app token"], secrets["signing"]),
	}.WriteSettings(t, dir, slack)
	harness.EditSettings(t, dir, "admin: {listen: 127.0.0.1:0}", fmt.Sprintf("admin: {listen: 127.0.0.1:0, token: %s}", secrets["admin token"]))
	harness.EditSettings(t, dir, alerttest.Token, "xoxb-"+secrets["bot token"])
	harness.EditSettings(t, dir, "level: info", "level: debug")
	writeToken(t, dir)
	return alerttest.Start(t, dir, slack)
}

// writeToken writes the admin token to the file that the harness reads.
func writeToken(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(harness.DataDir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, tokenFile(dir), secrets["admin token"]+"\n")
}

func tokenFile(dir string) string { return filepath.Join(harness.DataDir(dir), "headgate.token") }

// sendTasks sends tasks with the right key and with a wrong one.
func sendTasks(t *testing.T, d *alerttest.Instance, found *capturedOutput) {
	t.Helper()
	for _, key := range []string{secrets["client key"], secrets["client key"] + "x"} {
		clients := rollbacktest.NewClients(d.URL)
		clients.Key = key
		for range 3 {
			a := clients.Send()
			found.add("answer to a task", fmt.Sprintf("%+v", a))
		}
	}
}

// readAdminPlane reads everything that the admin plane serves, with right and wrong tokens.
func readAdminPlane(t *testing.T, d *alerttest.Instance, incident string, found *capturedOutput) {
	t.Helper()
	for _, path := range []string{
		"/metrics", "/readyz", "/healthz", "/", "/api/v1/status", "/api/v1/audit", "/api/v1/incidents", "/api/v1/silences",
		"/api/v1/incidents/" + incident, "/api/v1/incidents/none", "/nowhere",
	} {
		for _, token := range []string{secrets["admin token"], secrets["admin token"] + "x", ""} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.Admin+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+token)
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			_ = res.Body.Close() // it has been read
			if err != nil {
				t.Fatal(err)
			}
			found.add("answer to "+path, fmt.Sprint(res.Header)+string(text))
		}
	}
	found.add("log", d.Stderr()+d.Stdout())
}

// runCommands runs the commands that read the settings.
func runCommands(t *testing.T, d *alerttest.Instance, found *capturedOutput) {
	t.Helper()
	for _, args := range [][]string{
		{"check"}, {"alerts", "test"}, {"rules", "check"}, {"rules", "export"}, {"status"}, {"incident", "list", "--json"},
	} {
		p, _ := harness.RunToEnd(t, harness.Command{Args: append(args, "--config", harness.SettingsFile(d.Dir())), Dir: d.Dir()})
		found.add(strings.Join(args, " "), p.Stdout()+p.Stderr())
	}
}

// capturedOutput is all output of the gate, with its sources.
type capturedOutput struct{ sources, texts []string }

func (h *capturedOutput) add(where, what string) {
	h.sources, h.texts = append(h.sources, where), append(h.texts, what)
}

// addFiles adds all files of a folder except the token file.
func (h *capturedOutput) addFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "headgate.token" {
			return err
		}
		text, err := os.ReadFile(path)
		h.add(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (h *capturedOutput) wantNoSecrets(t *testing.T) {
	t.Helper()
	if len(h.texts) < 40 {
		t.Fatalf("only %d sources were checked: %v", len(h.texts), h.sources)
	}
	for name, secret := range secrets {
		for form, text := range secretEncodings(secret) {
			for n, what := range h.texts {
				if i := bytes.Index([]byte(what), []byte(text)); i >= 0 {
					t.Errorf("the %s is, %s, in %s: …%q", name, form, h.sources[n], what[max(0, i-100):i])
				}
			}
		}
	}
}

// secretEncodings are encodings of a secret. Within base64 it has one of three alignments.
func secretEncodings(secret string) map[string]string {
	all := map[string]string{"plain": secret, "as hex": hex.EncodeToString([]byte(secret)), "escaped": url.QueryEscape(secret)}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		all[fmt.Sprintf("in base64, shifted by %d", shift)] = text[4 : len(text)-4]
	}
	return all
}

// The check for secrets finds them.
func TestSecretsAreFound(t *testing.T) {
	secret := secrets["webhook"]
	for n, text := range []string{
		"x" + secret, base64.StdEncoding.EncodeToString([]byte("user:" + secret + ":more")),
		hex.EncodeToString([]byte("a" + secret)),
	} {
		found := false
		for _, form := range secretEncodings(secret) {
			found = found || strings.Contains(text, form)
		}
		if !found {
			t.Errorf("the secret in text %d is not found", n)
		}
	}
}
