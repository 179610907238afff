package browser

import (
	"fmt"
	"path/filepath"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// instance is a gate with its record, before a stand-in for the endpoint.
type instance struct {
	*harness.Gate
	stub *harness.Stub
}

// options is what a house is made of. The zero value is an empty one.
type options struct {
	settings string // more settings
	pool     []string
	rules    bool                           // one that fires at once
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

// token lets people in.
func (h *instance) token(t *testing.T) string {
	t.Helper()
	token, err := h.Token()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// tab opens a page of the house.
func (h *instance) tab(t *testing.T) *tab { t.Helper(); return openTab(t, h.Admin) }

// signIn gives token and name, as somebody does who comes for the first time.
func (h *instance) signIn(b *tab, name string) {
	b.Helper()
	b.navigate("/")
	b.waitPath("/login")
	b.fill("token", h.token(b.T))
	b.fill("name", name)
	b.click("Sign in")
	b.waitPath("/")
}

// firingRule is the one that fires in a house with rules.
const firingRule = "workers_there"

// awaitIncident waits until it has fired, and returns the ID of its incident.
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
