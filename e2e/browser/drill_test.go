package browser

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// drillTop is a drill that is over soon, and one that is not.
const drillTop = `drills:
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

// TestDrillIsRunAndAborted: somebody looks what a drill would do, runs it, reads what
// came of it, and stops another one.
func TestDrillIsRunAndAborted(t *testing.T) {
	t.Parallel()
	for name, scripted := range map[string]bool{"with a script": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := plan{top: drillTop}.build(t)
			b := h.tab(t)
			if !scripted {
				b.withoutScript()
			}
			h.signIn(b, "Chidi")
			b.press("Drills")
			b.sees("No drill has run yet")
			b.press("the drills there are")
			b.at("/drills/definitions")
			b.press("Run now: Short one")
			b.sees("What it would do", "production is not touched", "tasks_lost == 0")
			b.fill("reason", "to see it")
			b.press("Run Short one")
			b.until("the run is shown", `location.pathname.startsWith("/drills/runs/")`)
			id := strings.TrimPrefix(get[string](b, "location.pathname"), "/drills/runs/")
			h.awaitVerdict(t, id)
			verdict := h.verdict(t, id)
			if verdict != "passed" && verdict != "inconclusive" { // the machine may be too busy to tell
				t.Errorf("the verdict is %s", verdict)
			}
			b.comes(verdict, "Hypotheses", "tasks lost", "Run it again", "by hand Chidi")

			b.visit("/drills/definitions")
			b.press("Run now: Long one")
			b.press("Run Long one")
			b.until("the run goes on", `location.pathname.startsWith("/drills/runs/") && document.body.innerText.includes("Abort")`)
			b.usableNow("a run that goes on")
			b.press("Abort")
			b.usableNow("the question before a run is aborted")
			b.sees("Its faults are cleared at once")
			b.fill("reason", "the release comes first")
			b.press("Abort Long one")
			b.until("the run is shown", `location.pathname.startsWith("/drills/runs/") && !location.pathname.endsWith("/abort")`)
			long := strings.TrimPrefix(get[string](b, "location.pathname"), "/drills/runs/")
			h.awaitVerdict(t, long)
			b.comes("Aborted", "the release comes first")

			b.press("Drills")
			b.sees("Short one", "Long one")
			b.choose("verdict", "aborted")
			if !scripted {
				b.press("Filter")
			}
			b.until("only one run is left", `location.search.includes("verdict=aborted") && document.querySelectorAll("table.runs tbody tr").length === 1`)
			b.sees("the release comes first")
		})
	}
}

// TestDrillsAreFrozen: nothing begins then, and whoever wants to is told why.
func TestDrillsAreFrozen(t *testing.T) {
	t.Parallel()
	h := plan{top: drillTop}.build(t)
	both(t, h, func(b *tab) {
		h.signIn(b, "Dee")
		b.visit("/drills/definitions")
		b.press("Freeze all drills")
		b.fill("reason", "the sale")
		b.press("Freeze drills")
		b.at("/drills/definitions")
		b.sees("Frozen by Dee", "the sale")
		b.usableNow("drills that are frozen")
		b.press("Run now: Short one")
		b.sees("It would not begin now", "frozen")
		b.visit("/drills/definitions")
		b.press("Let drills run again")
		b.at("/drills/freeze")
		b.press("Let drills run again")
		b.until("they may run", `location.pathname === "/drills/definitions" && !document.body.innerText.includes("Frozen by")`)
	})
}

// verdict is what came of a run, empty while it goes on.
func (h *house) verdict(t *testing.T, id string) string {
	t.Helper()
	var run struct{ Verdict string }
	if err := h.Call(http.MethodGet, "runs/"+url.PathEscape(id), "", &run); err != nil {
		t.Fatal(err)
	}
	return run.Verdict
}

func (h *house) awaitVerdict(t *testing.T, id string) {
	t.Helper()
	harness.Until(t, "the run has ended", func() bool { return h.verdict(t, id) != "" })
}
