package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"headgate/runbooks/control"
)

// IsLocal returns a client that speaks to this API without a listener and without
// the token, for somebody who has been let in. Pages use it: what they show and do
// is what the API shows and does.
func (a *Admin) InProcessClient(actor string) *Client {
	return &Client{
		base: &url.URL{Scheme: "http", Host: "localhost"}, actor: actor, http: &http.Client{Transport: handlerTransport{a.routes}},
	}
}

// viaPageKey marks the context of what a page asks for.
type viaPageKey struct{}

// ViaFromContext is the way by which what is asked for in a request's context came: a page or
// the API.
func ViaFromContext(ctx context.Context) control.Via {
	if ctx.Value(viaPageKey{}) != nil {
		return control.ViaPage
	}
	return control.ViaAPI
}

// handlerTransport is a transport that ends in a handler.
type handlerTransport struct{ h http.Handler }

// RoundTrip implements http.RoundTripper. A problem that a Client would take for
// silence, since it came from a server in trouble, is returned as the error.
func (i handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &bufferedResponse{header: http.Header{}, status: http.StatusOK}
	in := r.Clone(context.WithValue(r.Context(), viaPageKey{}, true))
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.RequestURI, in.RemoteAddr = in.URL.RequestURI(), "127.0.0.1:0"
	i.h.ServeHTTP(w, in)
	if w.status >= http.StatusInternalServerError {
		p := new(Problem)
		if json.Unmarshal(w.body.Bytes(), p) == nil && p.Status == w.status {
			return nil, p
		}
	}
	return &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Request: r,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}, nil
}

// bufferedResponse is a response in memory.
type bufferedResponse struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (a *bufferedResponse) Header() http.Header { return a.header }

func (a *bufferedResponse) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
}

func (a *bufferedResponse) Write(p []byte) (int, error) {
	a.wrote = true
	return a.body.Write(p)
}
