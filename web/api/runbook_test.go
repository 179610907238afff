package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"headgate/runbooks"
)

// TestRunbooksAreOpen: whoever is paged reads the page behind the link, without a
// token.
func TestRunbooksAreOpen(t *testing.T) {
	h := Ops{}.Handler()
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	for _, name := range runbooks.PageNames() {
		w := get("/runbooks/" + name)
		page, _ := runbooks.Page(name)
		if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != strings.TrimSpace(page) {
			t.Errorf("%s: status %d, %d bytes", name, w.Code, w.Body.Len())
		}
		if kind := w.Header().Get("Content-Type"); kind != "text/plain; charset=utf-8" {
			t.Errorf("%s: %s", name, kind)
		}
	}
	for _, path := range []string{"/runbooks/nothing", "/runbooks/..", "/runbooks/doc.go", "/runbooks/"} {
		if w := get(path); w.Code == http.StatusOK {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
}
