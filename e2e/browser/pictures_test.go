//go:build pictures

package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"headgate/e2e/harness"
)

// maxPictureBytes is how large a picture for the README may be, in bytes.
const maxPictureBytes = 150 << 10

// TestPicturesForReadme takes the pictures that README shows, of the real program: a
// burst of the demo in real time, which takes four minutes, and a year of drills.
func TestPicturesForReadme(t *testing.T) {
	h := options{seed: seedHistory, settings: seedSettings}.start(t)
	b := h.tab(t)
	b.setViewport(1200, 820, false)
	h.signIn(b, "Ana Lyst")
	b.navigate("/drills")
	b.readmePicture("history")

	p := harness.Start(t, harness.Command{Args: []string{"demo", "--slack", "--plain", "--speed", "1", "--keep"}})
	var pages []string
	harness.Eventually(t, "the demo says where its pages are", func() bool {
		pages = pagesAt.FindStringSubmatch(p.Stdout() + p.Stderr())
		return pages != nil
	})
	b = openTab(t, pages[1])
	b.setViewport(1200, 1010, false)
	b.navigate(pages[2])
	b.click("Sign in")
	b.waitPath("/")
	b.click("Show 15 minutes")
	for end := time.Now().Add(12 * time.Minute); !strings.Contains(p.Stdout()+p.Stderr(), "t_s=210"); time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatal("the demo does not come to its 210th second")
		}
	}
	b.navigate("/?last=15m")
	b.readmePicture("overview")
}

// readmePicture keeps what can be seen of the page for the README.
func (b *tab) readmePicture(name string) {
	b.Helper()
	b.waitFor("the page is whole", `document.readyState === "complete"`)
	got, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err != nil {
		b.Fatal(err)
	}
	small, err := compressPNG(got.Data)
	if err != nil {
		b.Fatal(err)
	}
	if len(small) > maxPictureBytes {
		b.Errorf("the picture %s has %d bytes, at most %d are wanted", name, len(small), maxPictureBytes)
	}
	dir := filepath.Join(harness.Module(b), "..", "docs", "img")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), small, 0o644); err != nil {
		b.Fatal(err)
	}
}

// compressPNG writes a picture with the 256 colours that it has most of.
func compressPNG(data []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	count := map[color.Color]int{}
	size := full.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			count[color.NRGBAModel.Convert(full.At(x, y))]++
		}
	}
	var palette color.Palette
	for c := range count {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	small := image.NewPaletted(size, palette[:min(len(palette), 256)])
	draw.Draw(small, size, full, size.Min, draw.Src)
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}
