package app

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"testing"

	"headgate/internal/config"
	"headgate/runbooks/control"
)

var formKey = regexp.MustCompile(`name="form" value="([^"]+)"`)

// signIn gives the rig's client a session of the pages.
func (r *fixture) signIn(name string) {
	r.Helper()
	link, err := url.Parse(r.app.LoginPath(name))
	if err != nil {
		r.Fatal(err)
	}
	if r.client.Jar, err = cookiejar.New(nil); err != nil {
		r.Fatal(err)
	}
	if a := r.postForm("/login", url.Values{"code": {link.Query().Get("code")}}); a.status != http.StatusOK {
		r.Fatalf("sign in: status %d, %v", a.status, a.err)
	}
}

// postForm sends a form of the pages, and follows to where it leads.
func (r *fixture) postForm(path string, form url.Values) response {
	r.Helper()
	if page := r.getAdmin("/incidents"); r.client.Jar != nil && formKey.MatchString(page.body) {
		form.Set("form", formKey.FindStringSubmatch(page.body)[1])
	}
	req := r.request(http.MethodPost, "http://"+r.app.AdminAddr()+path, form.Encode())
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r.do(req)
}

// TestSilencesAreAudited: who muted a rule and who lifted that is in the audit, with
// the way it was asked for.
func TestSilencesAreAudited(t *testing.T) {
	r := newFixture(t, func(c *config.Config) { c.Admin.Token = config.NewSecret("a-token-for-this-test") })
	r.signIn("ana")
	if a := r.postForm("/silences", url.Values{"rule": {"queue_age"}, "for": {"1h"}, "reason": {"load test"}}); a.status != http.StatusOK {
		t.Fatalf("silence: status %d: %s", a.status, a.body)
	}
	id := r.app.monitor.engine.Silences()[0].ID
	lift := func() response {
		req := r.request(http.MethodDelete, "http://"+r.app.AdminAddr()+"/api/v1/silences/"+id, "")
		req.Header.Set("Authorization", "Bearer a-token-for-this-test")
		req.Header.Set("Headgate-Actor", "ben")
		return r.do(req)
	}
	for _, want := range []int{http.StatusOK, http.StatusNotFound} {
		if a := lift(); a.status != want {
			t.Errorf("lift: status %d, want %d: %s", a.status, want, a.body)
		}
	}
	if a := r.postForm("/silences", url.Values{"rule": {"queue_age"}, "for": {"2h"}, "reason": {"again"}}); a.status != http.StatusOK {
		t.Fatalf("silence: status %d: %s", a.status, a.body)
	}
	if a := r.postForm("/silences/"+r.app.monitor.engine.Silences()[0].ID+"/lift", url.Values{}); a.status != http.StatusOK {
		t.Fatalf("lift: status %d: %s", a.status, a.body)
	}
	want := []string{
		"lift done ana page queue_age", "silence done ana page queue_age", "lift refused ben api ", "lift done ben api queue_age", "silence done ana page queue_age",
	}
	var got []string
	r.eventually("the audit has it", func() bool {
		a, err := r.app.record.store.Audit(t.Context(), control.AuditQuery{Kind: control.KindAction, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, e := range entriesOf(a) {
			got = append(got, e.Action+" "+string(e.Result)+" "+e.Actor+" "+string(e.Via)+" "+e.Inputs["rule"])
		}
		return len(got) >= len(want)
	})
	for n, w := range want {
		if got[n] != w {
			t.Errorf("entry %d is %q, want %q", n, got[n], w)
		}
	}
}
