package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Times are shown in the zone of the schedule, in the zone of the browser, and in UTC. Without
// JavaScript the zone of the browser is unknown.
func TestTimeZones(t *testing.T) {
	t.Parallel()
	h := options{settings: strings.Replace(seedSettings, `"30 4 * * 1"`, `"30 4 15 1 *"`, 1)}.start(t)
	withAndWithoutScript(t, h, func(b *tab) {
		if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"}); err != nil {
			b.Fatal(err)
		}
		h.signIn(b, "Emi")
		b.navigate("/drills/definitions")
		b.waitText("Weekly burst", "Europe/Berlin", "04:30 +01:00")
		if b.noScript {
			b.waitText("03:30:00 UTC")
		} else {
			b.waitText("12:30:00 03:30 UTC")
		}
		b.navigate("/")
		b.waitText("Next: Weekly burst", "04:30 +01:00")
	})
}
