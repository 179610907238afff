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
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
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

// defaultRetryAfter is how long to wait when Slack limits the rate without saying for how
// long.
const defaultRetryAfter = 5 * time.Second

// outcomes of the codes that Slack refuses with. The rest is tried again.
func outcomeForCode(code string) alerts.Outcome {
	switch code {
	case "is_archived", "channel_not_found", "not_in_channel", "invalid_auth", "token_revoked",
		"account_inactive", "restricted_action":
		return alerts.PermanentFailure
	// Not seen yet, but no better for waiting.
	case "not_authed", "token_expired", "missing_scope", "no_permission", "not_allowed_token_type",
		"restricted_action_read_only_channel", "restricted_action_non_threadable_channel",
		"team_access_not_granted", "access_denied":
		return alerts.PermanentFailure
	case "invalid_blocks", "msg_too_long", "msg_blocks_too_long", "invalid_blocks_format":
		return alerts.Malformed
	case "message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found":
		return alerts.ThreadGone
	case "internal_error", "fatal_error", "request_timeout", "service_unavailable":
		return alerts.Ambiguous // it may have gone some way
	default:
		return alerts.RetryLater
	}
}

// classifyError is what an error, or an answer without one that is none, means. Left
// says whether the request may have reached Slack.
func classifyError(err error, left bool, secret string) alerts.SendResult {
	var (
		limited *slack.RateLimitedError
		refused slack.SlackErrorResponse
		status  slack.StatusCodeError
		number  *strconv.NumError
	)
	switch {
	case err == nil:
		return alerts.SendResult{Outcome: alerts.Ambiguous, Reason: "the answer does not say where the message stands"}
	case errors.As(err, &limited):
		return alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: max(limited.RetryAfter, time.Second), Reason: "rate limited"}
	case errors.As(err, &refused):
		return classifyCode(refused, secret)
	case errors.As(err, &status):
		return classifyStatus(status.Code)
	case errors.As(err, &number): // a Retry-After that is no whole number
		return alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: defaultRetryAfter, Reason: "rate limited"}
	case !left:
		return alerts.SendResult{Outcome: alerts.RetryLater, Reason: "not reached: " + redactedError(err, secret)}
	default:
		return alerts.SendResult{Outcome: alerts.Ambiguous, Reason: "no answer: " + redactedError(err, secret)}
	}
}

func classifyCode(r slack.SlackErrorResponse, secret string) alerts.SendResult {
	code := strings.ReplaceAll(r.Err, secretOrNUL(secret), "[redacted]")
	if code == "ratelimited" || code == "rate_limited" {
		return alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: defaultRetryAfter, Reason: "rate limited"}
	}
	a := alerts.SendResult{Outcome: outcomeForCode(code), Reason: truncateReason(code)}
	if len(r.ResponseMetadata.Messages) > 0 {
		a.Reason = truncateReason(code + ": " + strings.Join(r.ResponseMetadata.Messages, "; "))
	}
	if r.Needed != "" {
		a.Reason = truncateReason(code + ": the token lacks " + r.Needed)
	}
	a.Reason = strings.ReplaceAll(a.Reason, secretOrNUL(secret), "[redacted]")
	return a
}

// secretOrNUL returns what to replace: an empty secret must not match everywhere.
func secretOrNUL(secret string) string {
	if secret == "" {
		return "\x00"
	}
	return secret
}

func classifyStatus(code int) alerts.SendResult {
	a := alerts.SendResult{Outcome: alerts.RetryLater, Reason: fmt.Sprintf("status %d", code)}
	switch {
	case code == http.StatusTooManyRequests:
		a.RetryAfter, a.Reason = defaultRetryAfter, "rate limited"
	case code >= 500:
		a.Outcome = alerts.Ambiguous
	}
	return a
}
