package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"headgate/web/api"
)

func TestHostGuard(t *testing.T) {
	names := func() []string { return []string{"localhost", "gate.internal", "models.example.com", "*.wild.example"} }
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	guard := api.HostGuard(answer(http.StatusOK), names, answer(http.StatusMisdirectedRequest))
	get := func(host string, minor int) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.ProtoMinor = host, minor
		w := httptest.NewRecorder()
		guard.ServeHTTP(w, r)
		return w.Code
	}
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8484": true, "LOCALHOST": true, "localhost.": true, "127.0.0.1": true, "127.0.0.1:1": true,
		"[::1]": true, "[::1]:8484": true, "::1": true, "10.1.2.3:8484": true, "gate.internal": true, "gate.internal:1": true,
		"models.example.com": true, "MODELS.EXAMPLE.COM:8484": true,
		"": false, "evil.test": false, "evil.test:8484": false, "localhost.evil.test": false, "127.0.0.1.evil.test": false,
		"evillocalhost": false, "models.example.com.evil.test": false, "[evil.test]": false, ":8484": false, "127.0.0.1@evil.test": false,
		"0x7f000001": false, "127.1": false,
		"a.wild.example": true, "B.a.Wild.example:8484": true, "wild.example": false, ".wild.example": false, "xwild.example": false,
	} {
		if got := get(host, 1) == http.StatusOK; got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
	if get("", 0) != http.StatusOK {
		t.Error("a health check of HTTP/1.0 without a host is refused")
	}
}
