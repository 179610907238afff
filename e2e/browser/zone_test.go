package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestZonesAreTold: whoever looks from another part of the world sees the time of the
// schedule's zone, their own, and UTC. Without a script their own cannot be known.
func TestZonesAreTold(t *testing.T) {
	t.Parallel()
	h := plan{top: strings.Replace(yearTop, `"30 4 * * 1"`, `"30 4 15 1 *"`, 1)}.build(t)
	both(t, h, func(b *tab) {
		if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"}); err != nil {
			b.Fatal(err)
		}
		h.signIn(b, "Emi")
		b.visit("/drills/definitions")
		b.sees("Weekly burst", "Europe/Berlin", "04:30 +01:00")
		if b.plain {
			b.sees("03:30:00 UTC")
		} else {
			b.sees("12:30:00 03:30 UTC")
		}
		b.visit("/")
		b.sees("Next: Weekly burst", "04:30 +01:00")
	})
}
