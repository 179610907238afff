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

// limitedFor is how long to wait when Slack limits the rate without saying for how
// long.
const limitedFor = 5 * time.Second

// outcomes of the codes that Slack refuses with. The rest is tried again.
func outcomeOf(code string) alerts.Outcome {
	switch code {
	case "is_archived", "channel_not_found", "not_in_channel", "invalid_auth", "token_revoked",
		"account_inactive", "restricted_action":
		return alerts.Never
	// Not seen yet, but no better for waiting.
	case "not_authed", "token_expired", "missing_scope", "no_permission", "not_allowed_token_type",
		"restricted_action_read_only_channel", "restricted_action_non_threadable_channel",
		"team_access_not_granted", "access_denied":
		return alerts.Never
	case "invalid_blocks", "msg_too_long", "msg_blocks_too_long", "invalid_blocks_format":
		return alerts.Malformed
	case "message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found":
		return alerts.RootGone
	case "internal_error", "fatal_error", "request_timeout", "service_unavailable":
		return alerts.Unknown // it may have gone some way
	default:
		return alerts.Again
	}
}

// failure is what an error, or an answer without one that is none, means. Left
// says whether the request may have reached Slack.
func failure(err error, left bool, secret string) alerts.Attempt {
	var (
		limited *slack.RateLimitedError
		refused slack.SlackErrorResponse
		status  slack.StatusCodeError
		number  *strconv.NumError
	)
	switch {
	case err == nil:
		return alerts.Attempt{Outcome: alerts.Unknown, Reason: "the answer does not say where the message stands"}
	case errors.As(err, &limited):
		return alerts.Attempt{Outcome: alerts.Again, After: max(limited.RetryAfter, time.Second), Reason: "rate limited"}
	case errors.As(err, &refused):
		return refusal(refused, secret)
	case errors.As(err, &status):
		return byStatus(status.Code)
	case errors.As(err, &number): // a Retry-After that is no whole number
		return alerts.Attempt{Outcome: alerts.Again, After: limitedFor, Reason: "rate limited"}
	case !left:
		return alerts.Attempt{Outcome: alerts.Again, Reason: "not reached: " + innermost(err, secret)}
	default:
		return alerts.Attempt{Outcome: alerts.Unknown, Reason: "no answer: " + innermost(err, secret)}
	}
}

func refusal(r slack.SlackErrorResponse, secret string) alerts.Attempt {
	code := strings.ReplaceAll(r.Err, secretOr(secret), "[redacted]")
	if code == "ratelimited" || code == "rate_limited" {
		return alerts.Attempt{Outcome: alerts.Again, After: limitedFor, Reason: "rate limited"}
	}
	a := alerts.Attempt{Outcome: outcomeOf(code), Reason: shorten(code)}
	if len(r.ResponseMetadata.Messages) > 0 {
		a.Reason = shorten(code + ": " + strings.Join(r.ResponseMetadata.Messages, "; "))
	}
	if r.Needed != "" {
		a.Reason = shorten(code + ": the token lacks " + r.Needed)
	}
	a.Reason = strings.ReplaceAll(a.Reason, secretOr(secret), "[redacted]")
	return a
}

// secretOr returns what to replace: an empty secret must not match everywhere.
func secretOr(secret string) string {
	if secret == "" {
		return "\x00"
	}
	return secret
}

func byStatus(code int) alerts.Attempt {
	a := alerts.Attempt{Outcome: alerts.Again, Reason: fmt.Sprintf("status %d", code)}
	switch {
	case code == http.StatusTooManyRequests:
		a.After, a.Reason = limitedFor, "rate limited"
	case code >= 500:
		a.Outcome = alerts.Unknown
	}
	return a
}
