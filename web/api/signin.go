package api

import (
	"context"
	"net/http"
	"net/url"
)

// LinkReply is the reply to POST /api/v1/login-links.
type LinkReply struct {
	Path  string `json:"path"`  // of the link, below the URL of the admin listener; it works once
	Until string `json:"until"` // when it stops to work
}

// LinkPath returns the path of a link with a code.
func LinkPath(code string) string { return "/login?" + url.Values{"code": {code}}.Encode() }

func (a *Admin) link(w http.ResponseWriter, r *http.Request) {
	_, p := parameters(r)
	by, wrong := actor(r)
	if p == nil {
		p = wrong
	}
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	code, until := a.door.Link(by)
	writeJSON(w, http.StatusOK, "application/json", LinkReply{Path: LinkPath(code), Until: stamp(until)})
}

// Link asks for a link that signs the client's actor in, once.
func (c *Client) Link(ctx context.Context) (LinkReply, error) {
	var reply LinkReply
	return reply, c.call(ctx, http.MethodPost, c.base.JoinPath("api/v1/login-links"), nil, &reply)
}
