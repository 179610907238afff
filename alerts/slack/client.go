package slack

import (
	"context"
	"errors"
	"fmt"
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

// maxResponseBytes limits what is read of one response, in bytes: a page of history.
const maxResponseBytes = 8 << 20

// checkToken rejects a token of another kind.
func checkToken(token, prefix, hint string) error {
	if !strings.HasPrefix(token, prefix) || strings.ContainsAny(token, " \r\n\t") {
		return errors.New(hint)
	}
	return nil
}

// parseAPIURL returns the base URL of the API; empty: Slack's.
func parseAPIURL(raw string) (*url.URL, error) {
	if raw == "" {
		raw = slack.APIURL
	}
	if err := checkURL("the API's URL", raw); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(raw, "/") {
		return nil, errors.New("the API's URL must end in a slash")
	}
	return url.Parse(raw)
}

// newClient returns an HTTP client with a time limit (10 s unless given) and bounded responses. It follows no
// redirects, so that a token is not sent elsewhere.
func newClient(timeout time.Duration, base http.RoundTripper) *http.Client {
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	if base == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
		t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = 5*time.Second, timeout
		t.MaxIdleConnsPerHost, t.IdleConnTimeout = 4, time.Minute
		base = t
	}
	return &http.Client{
		Timeout:       timeout,
		Transport:     limitedTransport{base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// limitedTransport limits the length of responses.
type limitedTransport struct{ base http.RoundTripper }

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxResponseBytes)
	}
	return resp, err
}

// withSentTrace returns whether a request may have been sent: without a connection it was not.
func withSentTrace(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}), sent
}

// redactedError writes an error without the URL that net/http adds, and without the secret.
func redactedError(err error, secret string) string {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return truncateReason(redact(err.Error(), secret))
}

func truncateReason(s string) string { return plainText(s, 300) }

// checkURL rejects what is not the URL of a server.
func checkURL(what, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%s must be an http or https URL", what) // the URL may be a secret
	}
	return nil
}

// defaultRetryAfter is the delay when Slack limits the rate and gives no delay.
const defaultRetryAfter = 5 * time.Second

// outcomeForCode returns the outcome of an error code. Unknown codes are tried again.
func outcomeForCode(code string) alerts.Outcome {
	switch code {
	case "is_archived", "channel_not_found", "not_in_channel", "invalid_auth", "token_revoked",
		"account_inactive", "restricted_action",
		// Not observed yet, but waiting would not help.
		"not_authed", "token_expired", "missing_scope", "no_permission", "not_allowed_token_type",
		"restricted_action_read_only_channel", "restricted_action_non_threadable_channel",
		"team_access_not_granted", "access_denied":
		return alerts.PermanentFailure
	case "invalid_blocks", "msg_too_long", "msg_blocks_too_long", "invalid_blocks_format":
		return alerts.Malformed
	case "message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found":
		return alerts.ThreadGone
	case "internal_error", "fatal_error", "request_timeout", "service_unavailable":
		return alerts.Ambiguous // it may have been processed
	default:
		return alerts.RetryLater
	}
}

// classifyError returns the outcome of a failed call; a nil error is a response without content. Sent says whether the
// request may have reached Slack.
func classifyError(err error, sent bool, secret string) alerts.SendResult {
	var (
		limited *slack.RateLimitedError
		refused slack.SlackErrorResponse
		status  slack.StatusCodeError
		number  *strconv.NumError
	)
	switch {
	case err == nil:
		return alerts.SendResult{Outcome: alerts.Ambiguous, Reason: "empty response: no message reference returned"}
	case errors.As(err, &limited):
		return alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: max(limited.RetryAfter, time.Second), Reason: "rate limited"}
	case errors.As(err, &refused):
		return classifyCode(refused, secret)
	case errors.As(err, &status):
		return classifyStatus(status.Code)
	case errors.As(err, &number): // of a Retry-After header
		return alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: defaultRetryAfter, Reason: "rate limited"}
	case !sent:
		return alerts.SendResult{Outcome: alerts.RetryLater, Reason: "connection failed: " + redactedError(err, secret)}
	default:
		return alerts.SendResult{Outcome: alerts.Ambiguous, Reason: "no response: " + redactedError(err, secret)}
	}
}

func classifyCode(r slack.SlackErrorResponse, secret string) alerts.SendResult {
	if r.Err == "ratelimited" || r.Err == "rate_limited" {
		return alerts.SendResult{Outcome: alerts.RetryLater, RetryAfter: defaultRetryAfter, Reason: "rate limited"}
	}
	reason := r.Err
	switch {
	case r.Needed != "":
		reason += ": the token lacks " + r.Needed
	case len(r.ResponseMetadata.Messages) > 0:
		reason += ": " + strings.Join(r.ResponseMetadata.Messages, "; ")
	}
	return alerts.SendResult{Outcome: outcomeForCode(r.Err), Reason: truncateReason(redact(reason, secret))}
}

func redact(s, secret string) string {
	if secret == "" {
		return s // an empty secret would match everywhere
	}
	return strings.ReplaceAll(s, secret, "[redacted]")
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
