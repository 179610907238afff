package browser

import (
	"net/url"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// drillSettings define a short drill and a long one.
const drillSettings = `drills:
  - id: short
    name: Short one
    speed: 10
    scenario: {duration: 40s, workers: 4, arrivals: {rate: 1}, service: "fixed:1s"}
    expect: [refused_share <= 90%, tasks_lost == 0]
    abort_if: [error_share >= 90%]
    recovery: 5m
  - id: long
    name: Long one
    speed: 1
    scenario: {duration: 30m, workers: 4, arrivals: {rate: 1}, service: "fixed:1s"}
    expect: [tasks_lost == 0]
    abort_if: [error_share >= 90%]
    recovery: 5m
`

// The pages show the plan of a drill, run it, show its report, and abort another one.
func TestRunAndAbortDrill(t *testing.T) {
	t.Parallel()
	for name, scripted := range map[string]bool{"with a script": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := options{settings: drillSettings}.start(t)
			b := h.tab(t)
			if !scripted {
				b.disableScript()
			}
			h.signIn(b, "Chidi")
			b.click("Drills")
			b.waitText("No drill has run yet")
			b.click("the drills there are")
			b.waitPath("/drills/definitions")
			b.click("Run now: Short one")
			b.waitText("What it would do", "production is not touched", "tasks_lost == 0")
			b.fill("reason", "to see it")
			b.click("Run Short one")
			b.waitFor("the run is shown", `location.pathname.startsWith("/drills/runs/")`)
			id := strings.TrimPrefix(mustEval[string](b, "location.pathname"), "/drills/runs/")
			h.awaitVerdict(t, id)
			verdict := h.verdict(t, id)
			if verdict != "passed" && verdict != "inconclusive" { // the machine may be too busy for a verdict
				t.Errorf("the verdict is %s", verdict)
			}
			b.reloadUntilText(verdict, "Hypotheses", "tasks lost", "Run it again", "by hand Chidi")

			b.navigate("/drills/definitions")
			b.click("Run now: Long one")
			b.click("Run Long one")
			b.waitFor("the run continues", `location.pathname.startsWith("/drills/runs/") && document.body.innerText.includes("Abort")`)
			b.checkAccessible("a run that goes on")
			b.click("Abort")
			b.checkAccessible("the question before a run is aborted")
			b.waitText("Its faults are cleared at once")
			b.fill("reason", "the release comes first")
			b.click("Abort Long one")
			b.waitFor("the run is shown", `location.pathname.startsWith("/drills/runs/") && !location.pathname.endsWith("/abort")`)
			long := strings.TrimPrefix(mustEval[string](b, "location.pathname"), "/drills/runs/")
			h.awaitVerdict(t, long)
			b.reloadUntilText("Aborted", "the release comes first")

			b.click("Drills")
			b.waitText("Short one", "Long one")
			b.choose("verdict", "aborted")
			if !scripted {
				b.click("Filter")
			}
			b.waitFor("only one run is left", `location.search.includes("verdict=aborted") && document.querySelectorAll("table.runs tbody tr").length === 1`)
			b.waitText("the release comes first")
		})
	}
}

// While drills are frozen none starts, and the page says why.
func TestFreezeDrills(t *testing.T) {
	t.Parallel()
	h := options{settings: drillSettings}.start(t)
	withAndWithoutScript(t, h, func(b *tab) {
		h.signIn(b, "Dee")
		b.navigate("/drills/definitions")
		b.click("Freeze all drills")
		b.fill("reason", "the sale")
		b.click("Freeze drills")
		b.waitPath("/drills/definitions")
		b.waitText("Frozen by Dee", "the sale")
		b.checkAccessible("drills that are frozen")
		b.click("Run now: Short one")
		b.waitText("It would not start now", "frozen")
		b.navigate("/drills/definitions")
		b.click("Unfreeze drills")
		b.waitPath("/drills/freeze")
		b.click("Unfreeze drills")
		b.waitFor("they may run", `location.pathname === "/drills/definitions" && !document.body.innerText.includes("Frozen by")`)
	})
}

// verdict returns the verdict of a run, empty until it has ended.
func (h *instance) verdict(t *testing.T, id string) string {
	t.Helper()
	return harness.Get[harness.DrillRun](t, h.Gate, "runs/"+url.PathEscape(id)).Verdict
}

func (h *instance) awaitVerdict(t *testing.T, id string) {
	t.Helper()
	harness.Eventually(t, "the run has ended", func() bool { return h.verdict(t, id) != "" })
}
