package slack

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
)

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
