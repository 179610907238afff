package ui

import (
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/engine/tsdb"
)

// FuzzWithin: whatever a form says, signing in leads to this site.
func FuzzWithin(f *testing.F) {
	for _, s := range []string{"/", "/audit?since=7d", "//evil", "/\\evil", "https://evil", "/%2f%2fevil", "/\t/evil", "", "javascript:x", "/a#b"} {
		f.Add(s)
	}
	site := &url.URL{Scheme: "http", Host: "gate.example"}
	f.Fuzz(func(t *testing.T, next string) {
		got := localPath(next)
		u, err := site.Parse(got)
		if err != nil || u.Host != site.Host || u.Scheme != site.Scheme || !strings.HasPrefix(got, "/") || strings.HasPrefix(got, "//") || strings.ContainsAny(got, "\\\t\r\n") {
			t.Errorf("%q leads to %q", next, got)
		}
	})
}

// FuzzPicture: whatever is measured and however a pool is called, the picture is
// XML without anything that could run.
func FuzzPicture(f *testing.F) {
	f.Add("p95", 1.0, 2.0, 60.0, int64(60))
	f.Add(`"><script>`, -1e300, 1e300, 1e-300, int64(0))
	f.Add("\x00\xff", 0.0, 0.0, 0.0, int64(-5))
	f.Fuzz(func(t *testing.T, name string, a, b, limit float64, seconds int64) {
		from := time.Unix(1_800_000_000, 0)
		seconds %= 1 << 20
		c := chart{
			ID: "c", Pool: name, Title: name, Unit: "s", From: from, To: from.Add(time.Duration(seconds) * time.Second), Step: time.Second,
			Lines: []chartLine{{name, []tsdb.Point{{At: from, V: a}, {At: from.Add(time.Second), V: b}}}},
			Limit: &chartLimit{V: limit, Name: name}, Bands: []band{{From: from, To: from.Add(time.Second), Mode: name, Begins: true}},
		}
		dec := xml.NewDecoder(strings.NewReader(string(c.Picture())))
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("%v in %s", err, c.Picture())
			}
			if e, ok := token.(xml.StartElement); ok && slices.Contains([]string{"script", "style", "image", "foreignObject", "a"}, e.Name.Local) {
				t.Fatalf("a <%s> in %s", e.Name.Local, c.Picture())
			}
		}
	})
}
