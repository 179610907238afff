package browser

import (
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
)

// The first page shows an incident; its page acknowledges it and silences its rule.
func TestAcknowledgeAndSilence(t *testing.T) {
	t.Parallel()
	for name, scripted := range map[string]bool{"with a script": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := options{rules: true}.start(t)
			id := h.awaitIncident(t)
			b := h.tab(t)
			if !scripted {
				b.disableScript()
			}
			b.phoneViewport()
			h.signIn(b, "Ben")
			b.click("workers there in main")
			b.waitPath("/incidents/" + id)
			b.waitText("Page", alerttest.Summary, alerttest.Impact, "Acknowledged by nobody", "Open the runbook")
			b.choose("for", "8h")
			b.click("Acknowledge")
			b.waitPath("/incidents/" + id)
			b.reloadUntilText("Acknowledged by Ben", "Acknowledged page", "by Ben")
			if i := h.incident(t, id); i.AckedBy == nil || *i.AckedBy != "Ben" || !i.Open() {
				t.Errorf("the API says %+v", i)
			}
			b.fill("reason", "we know")
			b.click("Silence")
			b.reloadUntilText("Silenced yes")
			b.checkAccessible("an acknowledged and silenced incident")
			b.click("Incidents")
			b.waitPath("/incidents")
			b.reloadUntilText("workers there in main", "we know")
			b.click("Lift the silence of workers there")
			b.waitText("Nothing is silenced.")
			b.click("Runbooks")
			b.waitPath("/runbooks")
			harness.Eventually(t, "all of it is recorded", func() bool {
				seen := map[string]bool{}
				for _, i := range harness.Get[harness.List[harness.AuditEntry]](t, h.Gate, "audit?limit=100").Items {
					seen[i.Action+" by "+i.Actor] = true
				}
				return seen["ack by Ben"] && seen["silence by Ben"]
			})
		})
	}
}

func (h *instance) incident(t *testing.T, id string) harness.Incident {
	t.Helper()
	return harness.Get[harness.Incident](t, h.Gate, "incidents/"+id)
}
