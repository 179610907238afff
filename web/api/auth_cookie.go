package api

import (
	"net"
	"net/http"
	"strings"
	"unicode"
)

// The names of the cookie of a session. Browsers take the first one over TLS only,
// and from this host alone. The other one ends with the port: cookies do not tell
// ports apart, and two headgates on one machine would sign each other's people out.
const (
	secureCookie   = "__Host-headgate"
	plainCookie    = "headgate-"
	maxCookieValue = 100
)

// isTLS says whether a request came over TLS, here or to a proxy in front. What a
// client claims in the header concerns its own cookie only.
func isTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func cookieName(r *http.Request) string {
	if isTLS(r) {
		return secureCookie
	}
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil || strings.Trim(port, "0123456789") != "" {
		port = ""
	}
	return plainCookie + port
}

func readCookie(r *http.Request) (secret string, ok bool) {
	all := r.CookiesNamed(cookieName(r))
	if len(all) != 1 || all[0].Value == "" || len(all[0].Value) > maxCookieValue {
		return "", false
	}
	return all[0].Value, true
}

// writeCookie sets the cookie for some seconds, or takes it away.
func writeCookie(w http.ResponseWriter, r *http.Request, secret string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: secret, Path: "/", MaxAge: seconds,
		Secure: isTLS(r), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// replaceUnprintable makes a stranger's text fit to be recorded.
func replaceUnprintable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
