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

// TestBurstIsWatched: somebody follows the link that the demo prints, and watches the
// gate hold a burst: nobody loads the page again. Its channel is looked at as well.
func TestBurstIsWatched(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Command{Args: []string{"demo", "--slack", "--plain", "--keep", "--speed", "20"}})
	var pages, slack []string
	harness.Until(t, "the demo says where its pages are", func() bool {
		said := p.Stdout() + p.Stderr()
		pages, slack = pagesAt.FindStringSubmatch(said), slackAt.FindStringSubmatch(said)
		return pages != nil && slack != nil
	})
	b := openTab(t, pages[1])
	b.visit(pages[2])
	b.press("Sign in")
	b.at("/")
	b.sees("Enforce")
	b.press("Show 15 minutes")
	b.until("the last minutes are shown", `location.search === "?last=15m"`)
	if err := b.ask("window.loadedOnce = true", nil); err != nil {
		t.Fatal(err)
	}
	b.until("the gate refuses", `loadedOnce && / [1-9][0-9]* refused/.test(document.querySelector(".counts").innerText)`)
	b.until("charts show it", `loadedOnce && [...document.querySelectorAll(".chart .line")].some((l) => l.getAttribute("d").length > 20)`)
	b.until("an incident is on the page", `loadedOnce && document.querySelector("#open-incidents a[href^='/incidents/']") !== null`)
	b.faultless("the overview in a burst")
	b.shot("demo-overview")

	c := openTab(t, slack[1])
	c.visit("/")
	for n, scheme := range []string{"light", "dark"} {
		c.look(scheme, "")
		c.faultless(fmt.Sprintf("the channel, %s", scheme))
		c.shot(fmt.Sprintf("demo-slack-%d", n))
	}
	c.phone()
	if wide := get[[]string](c, tooWide); len(wide) > 0 {
		t.Errorf("the channel is wider than a phone: %v", wide)
	}
}
