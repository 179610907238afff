package browser

import (
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"headgate/e2e/harness"
)

// keepScreenshots reports whether pictures are wanted: make shots sets the variable.
func keepScreenshots() bool { return os.Getenv("HEADGATE_SHOTS") != "" }

// screenshot saves a picture of the whole page if keepScreenshots.
func (b *tab) screenshot(name string) {
	b.Helper()
	if !keepScreenshots() {
		return
	}
	yes := true
	got, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &yes})
	if err != nil {
		b.Fatal(err)
	}
	b.saveImage(name, got.Data)
}

// saveImage writes a picture into the folder shots.
func (b *tab) saveImage(name string, picture []byte) {
	b.Helper()
	dir := filepath.Join(harness.Module(b), "browser", "shots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.Error(err)
	}
}
