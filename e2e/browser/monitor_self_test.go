package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWatcherNotices: what would be wrong with a page does not pass unseen.
func TestWatcherNotices(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	policy := "default-src 'none'; script-src 'self' 'unsafe-inline'; img-src *"
	for name, c := range map[string]struct{ body, want string }{
		"another origin": {`<img src="` + other.URL + `/x.png" alt="">`, "another origin"},
		"the console":    {`<script>console.error("no")</script>`, "the console"},
		"an exception":   {`<script>nothing()</script>`, "an exception"},
		"the policy":     {`<p style="color: red">red</p>`, "Content Security Policy"},
		"missing":        {`<img src="/none.png" alt="">`, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Security-Policy", policy)
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte(`<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>x</title>` + c.body))
			}))
			t.Cleanup(s.Close)
			b := openTab(t, s.URL)
			b.navigate("/")
			b.waitText()
			found := false
			for range 200 {
				for _, wrong := range b.monitor.drain() {
					found = found || strings.Contains(wrong, c.want)
				}
				if found {
					return
				}
				b.waitFor("time passes", "new Promise((done) => setTimeout(() => done(true), 10))")
			}
			t.Errorf("it has not noticed %s", c.want)
		})
	}
}
