package browser

import (
	"net/http"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/watch/desk"
)

// TestIncidentIsTakenOn: whoever is on call finds what is wrong on the first page,
// takes it on, and silences what need not be told.
func TestIncidentIsTakenOn(t *testing.T) {
	t.Parallel()
	for name, scripted := range map[string]bool{"with a script": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := plan{rules: true}.build(t)
			id := h.awaitIncident(t)
			b := h.tab(t)
			if !scripted {
				b.withoutScript()
			}
			b.phone()
			h.signIn(b, "Ben")
			b.press("workers there in main")
			b.at("/incidents/" + id)
			b.sees("Page", desk.Summary, desk.Feel, "Taken by nobody", "Open the runbook")
			b.choose("for", "8h")
			b.press("Acknowledge")
			b.at("/incidents/" + id)
			b.comes("Taken by Ben", "Acknowledged page", "by Ben")
			if i := h.incident(t, id); i.AckedBy == nil || *i.AckedBy != "Ben" || !i.Open() {
				t.Errorf("the API says %+v", i)
			}
			b.fill("reason", "we know")
			b.press("Silence")
			b.comes("Silenced yes")
			b.usableNow("an incident that is taken on and silenced")
			b.press("Incidents")
			b.at("/incidents")
			b.comes("workers there in main", "we know")
			b.press("Lift the silence of workers there")
			b.sees("Nothing is silenced.")
			b.press("Runbooks")
			b.at("/runbooks")
			harness.Until(t, "all of it is recorded", func() bool {
				var page struct {
					Items []struct{ Action, Actor string }
				}
				if err := h.Call(http.MethodGet, "audit?limit=100", "", &page); err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for _, i := range page.Items {
					seen[i.Action+" by "+i.Actor] = true
				}
				return seen["ack by Ben"] && seen["silence by Ben"]
			})
		})
	}
}

func (h *house) incident(t *testing.T, id string) (i desk.Incident) {
	t.Helper()
	if err := h.Call(http.MethodGet, "incidents/"+id, "", &i); err != nil {
		t.Fatal(err)
	}
	return i
}
