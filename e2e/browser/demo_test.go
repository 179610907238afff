package browser

import (
	"fmt"
	"regexp"
	"testing"

	"headgate/e2e/harness"
)

var (
	pagesAt = regexp.MustCompile(`pages +(http://\S+)(/login\?code=\S+)`)
	slackAt = regexp.MustCompile(`Slack +(http://\S+)/ `)
)

// The link that the demo prints signs in; the page shows a burst without a reload, and the
// Slack page shows the channel.
func TestBurst(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Command{Args: []string{"demo", "--slack", "--plain", "--keep", "--speed", "20"}})
	var pages, slack []string
	harness.Eventually(t, "the demo says where its pages are", func() bool {
		said := p.Stdout() + p.Stderr()
		pages, slack = pagesAt.FindStringSubmatch(said), slackAt.FindStringSubmatch(said)
		return pages != nil && slack != nil
	})
	b := openTab(t, pages[1])
	b.navigate(pages[2])
	b.click("Sign in")
	b.waitPath("/")
	b.waitText("Enforce")
	b.click("Show 15 minutes")
	b.waitFor("the last minutes are shown", `location.search === "?last=15m"`)
	if err := b.eval("window.loadedOnce = true", nil); err != nil {
		t.Fatal(err)
	}
	b.waitFor("the gate refuses", `loadedOnce && / [1-9][0-9]* refused/.test(document.querySelector(".counts").innerText)`)
	b.waitFor("charts show it", `loadedOnce && [...document.querySelectorAll(".chart .line")].some((l) => l.getAttribute("d").length > 20)`)
	b.waitFor("an incident is on the page", `loadedOnce && document.querySelector("#open-incidents a[href^='/incidents/']") !== null`)
	b.wantNoViolations("the overview in a burst")
	b.screenshot("demo-overview")

	c := openTab(t, slack[1])
	c.navigate("/")
	for n, scheme := range []string{"light", "dark"} {
		c.emulateMedia(scheme, "")
		c.wantNoViolations(fmt.Sprintf("the channel, %s", scheme))
		c.screenshot(fmt.Sprintf("demo-slack-%d", n))
	}
	c.phoneViewport()
	if wide := mustEval[[]string](c, overflowingElements); len(wide) > 0 {
		t.Errorf("the channel is wider than a phone: %v", wide)
	}
}
