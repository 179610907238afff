package fakeslack_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"headgate/internal/fakeslack"
)

// Whatever an app posts, the page shows it without giving it power, and its
// buttons can be pressed without harm.
func FuzzBlocks(f *testing.F) {
	f.Add(`[{"type":"actions","elements":[{"type":"button","action_id":"a","text":{"type":"plain_text","text":"A"},"confirm":{"text":{"text":"?"}}}]}]`)
	f.Add(`[{"type":"section","text":{"type":"mrkdwn","text":"<javascript:x|y>"},"accessory":{"type":"button","action_id":"a","url":"javascript:x","text":{"text":"<b>"}}}]`)
	f.Add(`[{"type":"context","elements":[{"type":"mrkdwn","text":"*_<@U0ADA>_*"}]},{"type":"header","text":{"type":"plain_text","text":"<script>"}}]`)
	f.Fuzz(func(t *testing.T, blocks string) {
		s := fakeslack.New(fakeslack.Options{})
		s.SetChannel(fakeslack.Channel{ID: "C1", Name: "ops", Member: true})
		send(t, s, "/api/chat.postMessage", url.Values{"token": {"x"}, "channel": {"C1"}, "text": {"t"}, "blocks": {blocks}})
		page := send(t, s, "/channel?channel=C1", nil)
		for _, bad := range []string{"<script", "<b>", `href="javascript`, "<style"} {
			if strings.Contains(strings.ToLower(page), bad) {
				t.Errorf("the page has %s:\n%s", bad, page)
			}
		}
		for _, m := range s.Messages("C1") {
			for _, action := range []string{"", "a"} {
				v := url.Values{"channel": {"C1"}, "as": {"U0ADA"}, "ts": {m.TS}, "action": {action}}
				if answer := send(t, s, "/press", v); strings.Contains(strings.ToLower(answer), "<script") {
					t.Errorf("pressed, it answers %s", answer)
				}
			}
		}
	})
}

// send asks without a network. Fields make it a POST.
func send(t *testing.T, s *fakeslack.Server, path string, fields url.Values) string {
	t.Helper()
	method := http.MethodGet
	if fields != nil {
		method = http.MethodPost
	}
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code >= http.StatusInternalServerError {
		t.Errorf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}
