package browser

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
	"headgate/e2e/watch/desk"
	"headgate/internal/modelstub"
)

// house is a gate with its record, before a stand-in for the endpoint.
type house struct {
	*rig.Rig
	stub *harness.Stub
}

// plan is what a house is made of. The zero value is an empty one.
type plan struct {
	top   string // more settings
	pool  []string
	rules bool                           // one that fires at once
	seed  func(t *testing.T, dir string) // writes the record first
}

// build starts a gate with one pool, main.
func (p plan) build(t *testing.T) *house {
	t.Helper()
	stub := harness.StartStub(t, modelstub.Config{Slots: 4, Service: modelstub.Fixed(0)})
	dir := t.TempDir()
	if p.rules {
		desk.WriteRules(t, dir, desk.Knob(rule, 3, 4))
		p.top += fmt.Sprintf("rules: {file: %q}\n", filepath.Join(dir, "rules.yaml"))
	}
	rig.Write(t, dir, p.top, rig.Pool("main", stub.URL, 4, p.pool...))
	if p.seed != nil {
		p.seed(t, rig.Data(dir))
	}
	return &house{rig.Start(t, dir), stub}
}

// token lets people in.
func (h *house) token(t *testing.T) string {
	t.Helper()
	token, err := rig.Token(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// tab opens a page of the house.
func (h *house) tab(t *testing.T) *tab { t.Helper(); return openTab(t, h.Admin) }

// signIn gives token and name, as somebody does who comes for the first time.
func (h *house) signIn(b *tab, name string) {
	b.Helper()
	b.visit("/")
	b.at("/login")
	b.fill("token", h.token(b.T))
	b.fill("name", name)
	b.press("Sign in")
	b.at("/")
}

// rule is the one that fires in a house with rules.
const rule = "workers_there"

// awaitIncident waits until it has fired, and returns the ID of its incident.
func (h *house) awaitIncident(t *testing.T) (id string) {
	t.Helper()
	harness.Until(t, "an incident opens", func() bool {
		var page struct{ Items []desk.Incident }
		if err := h.Call(http.MethodGet, "incidents?open=true&rule="+rule, "", &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			id = i.ID
		}
		return id != ""
	})
	return id
}
