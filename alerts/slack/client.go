package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// maxResponseBytes bounds what is read of one answer, in bytes: a page of history.
const maxResponseBytes = 8 << 20

// newClient returns an HTTP client with a time limit, whose answers are bounded,
// and that follows no redirect: a token goes where it was meant to go.
func newClient(timeout time.Duration, base http.RoundTripper) *http.Client {
	if base == nil {
		base = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: timeout,
			MaxIdleConnsPerHost:   4,
			IdleConnTimeout:       time.Minute,
			ForceAttemptHTTP2:     true,
		}
	}
	return &http.Client{
		Timeout:       timeout,
		Transport:     limitedTransport{base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// limitedTransport cuts answers off.
type limitedTransport struct{ base http.RoundTripper }

func (b limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(r)
	if err == nil {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxResponseBytes}
	}
	return resp, err
}

var errResponseTooLong = errors.New("the answer is too long")

type limitedBody struct {
	io.ReadCloser
	left int
}

func (c *limitedBody) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errResponseTooLong
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// withSentTrace tells whether a request may have left: without a connection it has not.
func withSentTrace(ctx context.Context) (context.Context, *atomic.Bool) {
	left := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { left.Store(true) },
	}), left
}

// redactedError writes an error without the URL that net/http puts around it, and
// without the secret.
func redactedError(err error, secret string) string {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	s := err.Error()
	if secret != "" {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return truncateReason(s)
}

func truncateReason(s string) string { return plainText(s, 300) }

// checkURL refuses what is no address of a server.
func checkURL(what, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%s must be an http or https URL", what) // it may be a secret: it is not shown
	}
	return nil
}
