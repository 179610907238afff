package api

import (
	"net/http"
	"net/url"
)

// LoginLink is the reply to POST /api/v1/login-links.
type LoginLink struct {
	Path  string `json:"path"`  // of the link, below the URL of the admin listener; it works once
	Until string `json:"until"` // when it stops to work
}

// LoginLinkPath returns the path of a link with a code.
func LoginLinkPath(code string) string { return "/login?" + url.Values{"code": {code}}.Encode() }

func (a *Admin) createLoginLink(w http.ResponseWriter, r *http.Request) {
	_, p := parseQuery(r)
	by, wrong := actorOf(r)
	if p == nil {
		p = wrong
	}
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	code, until := a.auth.CreateLink(by.Name)
	writeJSON(w, http.StatusOK, "application/json", LoginLink{Path: LoginLinkPath(code), Until: formatTime(until)})
}
