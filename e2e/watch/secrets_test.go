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

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
	"headgate/e2e/watch/desk"
	"headgate/internal/fakeslack"
)

// secrets are what must not be found anywhere, by their names.
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

// refuser is what turns everything away, and says what it was asked for.
func refuser(t *testing.T, status int) (base string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what came of it does not matter
		w.WriteHeader(status)
		fmt.Fprintf(w, "no %s %s %v %s", r.Method, r.URL, r.Header, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// After a run in which everything that takes a secret has failed, no secret is in
// any log, file of the data directory, metric, answer or message.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	slack := desk.StartSlack(t, 1)
	slack.SetChannel(fakeslack.Channel{ID: desk.Page, Name: "page", Member: true, Archived: true}) // so that the webhook is tried
	d, found := leaky(t, slack), &haul{}
	spend(t, d, found)
	firing := d.AwaitFiring(t, "knob", "page")
	d.AwaitIncident(t, "knob", "refused by both", func(i desk.Incident) bool {
		tried := 0
		for _, x := range i.Deliveries {
			if x.State == "dead" || x.Attempts > 1 {
				tried++
			}
		}
		return tried > 1
	})
	slack.GoAway()
	desk.Until(t, "heartbeats fail", func() bool { return d.Count(t, "headgate_heartbeats_total", "result", "failed") > 0 })
	d.Turn(t, 4, 1)
	d.AwaitOver(t, "knob")
	ask(t, d, firing.ID, found)
	commands(t, d, found)
	d.Reload(t)
	d = again(t, d, os.Kill)
	d.Evaluated(t, 3)
	ask(t, d, firing.ID, found)
	d.Stop(t)
	found.add("log after the restart", d.Stderr()+d.Stdout())
	found.files(t, rig.Data(d.Dir))
	found.check(t)
}

// leaky starts a gate that has all the secrets, and whose every way out is shut.
func leaky(t *testing.T, slack *desk.Slack) *desk.Desk {
	t.Helper()
	sum := sha256.Sum256([]byte(secrets["client key"]))
	dir := t.TempDir()
	desk.Setup{
		Rules: []desk.Rule{desk.Knob("knob", 0, 3)}, Workers: 4, Upstream: refuser(t, http.StatusInternalServerError),
		Pool: []string{"upstream_key: " + secrets["upstream key"]},
		Top: fmt.Sprintf("heartbeat: {url: %q, interval: 10s}\nclients: [{name: one, key_sha256: %s}]\n",
			refuser(t, http.StatusNotFound)+"/"+secrets["heartbeat URL"], hex.EncodeToString(sum[:])),
		Hook:  refuser(t, http.StatusForbidden) + "/services/T0/B0/" + secrets["webhook"],
		Slack: fmt.Sprintf(", app_token: xapp-%s, signing_secret: %s, listen: \"127.0.0.1:0\"", secrets["app token"], secrets["signing"]),
	}.Write(t, dir, slack)
	rig.Replace(t, dir, "admin: {listen: 127.0.0.1:0}", fmt.Sprintf("admin: {listen: 127.0.0.1:0, token: %s}", secrets["admin token"]))
	rig.Replace(t, dir, desk.Token, "xoxb-"+secrets["bot token"])
	rig.Replace(t, dir, "level: info", "level: debug")
	writeToken(t, dir)
	return desk.Start(t, dir, slack)
}

// writeToken puts the admin token where the rig looks for it.
func writeToken(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(rig.Data(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, tokenFile(dir), secrets["admin token"]+"\n")
}

func tokenFile(dir string) string { return filepath.Join(rig.Data(dir), "headgate.token") }

// spend sends tasks with the right key and with a wrong one.
func spend(t *testing.T, d *desk.Desk, found *haul) {
	t.Helper()
	for _, key := range []string{secrets["client key"], secrets["client key"] + "x"} {
		crowd := rig.NewCrowd(d.URL)
		crowd.Key = key
		for range 3 {
			a := crowd.Send()
			found.add("answer to a task", fmt.Sprintf("%+v", a))
		}
	}
}

// ask reads everything that the admin plane shows, and is refused there too.
func ask(t *testing.T, d *desk.Desk, incident string, found *haul) {
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

// commands runs those that read the settings.
func commands(t *testing.T, d *desk.Desk, found *haul) {
	t.Helper()
	for _, args := range [][]string{
		{"check"}, {"alerts", "test"}, {"rules", "check"}, {"rules", "export"}, {"status"}, {"incident", "list", "--json"},
	} {
		p, _ := harness.RunToEnd(t, harness.Command{Args: append(args, "--config", rig.Settings(d.Dir)), Dir: d.Dir})
		found.add(strings.Join(args, " "), p.Stdout()+p.Stderr())
	}
}

// haul is what was said and written.
type haul struct{ where, what []string }

func (h *haul) add(where, what string) {
	h.where, h.what = append(h.where, where), append(h.what, what)
}

// files adds all files of a folder, but the one that is there for the token.
func (h *haul) files(t *testing.T, dir string) {
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

func (h *haul) check(t *testing.T) {
	t.Helper()
	if len(h.what) < 40 {
		t.Fatalf("only %d places were looked at: %v", len(h.what), h.where)
	}
	for name, secret := range secrets {
		for form, text := range forms(secret) {
			for n, what := range h.what {
				if i := bytes.Index([]byte(what), []byte(text)); i >= 0 {
					t.Errorf("the %s is, %s, in %s: …%q", name, form, h.where[n], what[max(0, i-100):i])
				}
			}
		}
	}
}

// forms are ways to write a secret. Within base64 it stands at one of three places.
func forms(secret string) map[string]string {
	all := map[string]string{"plain": secret, "as hex": hex.EncodeToString([]byte(secret)), "escaped": url.QueryEscape(secret)}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		all[fmt.Sprintf("in base64, shifted by %d", shift)] = text[4 : len(text)-4]
	}
	return all
}

// What looks for secrets finds them.
func TestSecretsWouldBeFound(t *testing.T) {
	secret := secrets["webhook"]
	for n, text := range []string{
		"x" + secret, base64.StdEncoding.EncodeToString([]byte("user:" + secret + ":more")),
		hex.EncodeToString([]byte("a" + secret)),
	} {
		found := false
		for _, form := range forms(secret) {
			found = found || strings.Contains(text, form)
		}
		if !found {
			t.Errorf("text %d holds the secret, and it is not found", n)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
