package app

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/runbooks/control"
)

// TestPagesShowTheSettings: limits, objective and what is left of the budget.
func TestPagesShowTheSettings(t *testing.T) {
	r := newFixture(t, func(c *config.Config) {
		c.Admin.AnonymousRead = true
		c.Pools[0].Admission.MaxQueueAge = 17 * time.Second
		c.Pools[0].SLO.Objective = 0.94
	})
	a := r.getAdmin("/")
	for _, want := range []string{"Enforce", "refuses above 17 s", "objective 94 %", "Turnaround p95"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("%q is not on the overview (status %d)", want, a.status)
		}
	}
	known, ok := r.app.poolFacts(r.app.Pools()[0].Name)
	if !ok || known.Objective != 0.94 || known.MaxAge != 17*time.Second {
		t.Errorf("facts: %+v", known)
	}
	for _, name := range []string{"none", ""} {
		if _, ok := r.app.poolFacts(name); ok {
			t.Errorf("facts of the pool %q, which is none", name)
		}
	}
}

// TestLoginPathSignsIn: through the real listener, and the audit knows.
func TestLoginPathSignsIn(t *testing.T) {
	r := newFixture(t, nil)
	link, err := url.Parse(r.app.LoginPath("ana@ops1"))
	if err != nil || link.Path != "/login" {
		t.Fatalf("%v, %v", link, err)
	}
	req := r.request(http.MethodPost, "http://"+r.app.AdminAddr()+"/login", url.Values{"code": {link.Query().Get("code")}}.Encode())
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if a := r.do(req); a.status != http.StatusOK && a.status != http.StatusSeeOther || strings.Contains(a.body, "has been used") {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	r.eventually("the login is in the audit", func() bool {
		page, err := r.app.record.store.Audit(t.Context(), control.AuditQuery{Limit: 10})
		return err == nil && slices.ContainsFunc(entriesOf(page), func(e control.AuditEntry) bool { return e.Action == "login" && e.Actor == "ana@ops1" })
	})
}

func TestPagesAreNotForForeignHosts(t *testing.T) {
	r := newFixture(t, func(c *config.Config) { c.Admin.AnonymousRead = true })
	for _, path := range []string{"/", "/login", "/static/style.css", "/mode"} {
		req := r.request(http.MethodGet, "http://"+r.app.AdminAddr()+path, "")
		req.Host = "evil.test"
		if a := r.do(req); a.status != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	r.eventually("it is in the audit", func() bool {
		page, err := r.app.record.store.Audit(t.Context(), control.AuditQuery{Limit: 10})
		return err == nil && slices.ContainsFunc(entriesOf(page), func(e control.AuditEntry) bool {
			return e.Result == control.Refused && e.Reason == `a request for the host "evil.test"`
		})
	})
}
