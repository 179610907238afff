package browser

import (
	"fmt"
	"path/filepath"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// instance is a gate and its stub.
type instance struct {
	*harness.Gate
	stub *harness.Stub
}

// options configure an instance. The zero value is an empty one.
type options struct {
	settings string // more settings
	pool     []string
	rules    bool                           // with a rule that fires at once
	seed     func(t *testing.T, dir string) // writes the record first
}

// start starts a gate with one pool, main.
func (p options) start(t *testing.T) *instance {
	t.Helper()
	stub := harness.StartStub(t, modelstub.Config{Slots: 4, Service: modelstub.Fixed(0)})
	dir := t.TempDir()
	if p.rules {
		alerttest.WriteRules(t, dir, alerttest.WorkersRule(firingRule, 3, 4))
		p.settings += fmt.Sprintf("rules: {file: %q}\n", filepath.Join(dir, "rules.yaml"))
	}
	harness.WriteSettings(t, dir, p.settings, harness.PoolSettings("main", stub.URL, 4, p.pool...))
	if p.seed != nil {
		p.seed(t, harness.DataDir(dir))
	}
	return &instance{harness.StartIn(t, dir), stub}
}

// token returns the admin token.
func (h *instance) token(t *testing.T) string {
	t.Helper()
	token, err := h.Token()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// tab opens an empty page for the gate.
func (h *instance) tab(t *testing.T) *tab { t.Helper(); return openTab(t, h.Admin) }

// signIn signs in with token and name.
func (h *instance) signIn(b *tab, name string) {
	b.Helper()
	b.navigate("/")
	b.waitPath("/login")
	b.fill("token", h.token(b.T))
	b.fill("name", name)
	b.click("Sign in")
	b.waitPath("/")
}

// firingRule is the rule of options.rules.
const firingRule = "workers_there"

// awaitIncident waits until firingRule has fired, and returns the ID of its incident.
func (h *instance) awaitIncident(t *testing.T) (id string) {
	t.Helper()
	harness.Eventually(t, "an incident opens", func() bool {
		for _, i := range harness.Get[harness.List[harness.Incident]](t, h.Gate, "incidents?open=true&rule="+firingRule).Items {
			id = i.ID
		}
		return id != ""
	})
	return id
}
