package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

const (
	responseTimeout  = 10 * time.Second
	maxResponseText  = 3000 // characters of an answer
	responseHost     = "hooks.slack.com"
	maxResponseReply = 64 << 10 // bytes of what Slack says to an answer
)

// responder tell those who asked, and nobody else.
type responder struct {
	bot *Bot
	log *slog.Logger
}

// send tries the address that Slack gave, and then the channel.
func (s responder) send(ctx context.Context, c callback, a Response) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	text := formatResponse(a.Text)
	err := s.postToURL(ctx, c.responseURL, text)
	if err != nil && c.channel != "" {
		_, err = s.bot.api.PostEphemeralContext(ctx, c.channel, c.user, slack.MsgOptionText(text, false))
	}
	if err != nil {
		s.log.Warn("somebody in Slack could not be answered", "user", c.user, "error", redactedError(err, s.bot.token))
	}
}

var actorPattern = regexp.MustCompile(`\bslack:([UW][A-Z0-9]{2,20})\b`)

// formatResponse makes an answer's plain text fit for Slack.
func formatResponse(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		out, _ := escapeTruncate(strings.TrimRight(line, "\n"), maxResponseText)
		lines = append(lines, out)
	}
	return actorPattern.ReplaceAllString(truncateMarkup(strings.Join(lines, "\n"), maxResponseText), "<@$1>")
}

var errResponseURL = errors.New("the address for the answer is none of Slack's")

// postToURL posts to a response_url. It goes nowhere but to Slack, or to where the
// API is said to be: the address comes from outside.
func (s responder) postToURL(ctx context.Context, to, text string) error {
	if !s.bot.trustsResponseURL(to) {
		return errResponseURL
	}
	body, err := json.Marshal(map[string]any{"response_type": "ephemeral", "replace_original": false, "text": text})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errResponseURL // its text holds the address, which is a secret
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.bot.http.Do(req)
	if err != nil {
		return errors.New(redactedError(err, to))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponseReply)) // so that the connection can be used again
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// trustsResponseURL says whether an address is one of Slack's own.
func (b *Bot) trustsResponseURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	if u.Scheme == "https" && (u.Host == responseHost || u.Host == responseHost+":443") {
		return true
	}
	return u.Scheme == b.apiURL.Scheme && u.Host == b.apiURL.Host
}

// ownsChannel says whether a channel is one of the bot's.
func (b *Bot) ownsChannel(channel string) bool {
	for _, id := range b.channels {
		if id == channel {
			return true
		}
	}
	return false
}

// workspaceID returns the ID of the workspace. It is asked for once.
func (b *Bot) workspaceID(ctx context.Context) (string, error) {
	b.mu.Lock()
	team := b.teamID
	b.mu.Unlock()
	if team != "" {
		return team, nil
	}
	a, err := b.api.AuthTestContext(ctx)
	if err != nil || a.TeamID == "" {
		return "", errors.New(b.failureReason(err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.teamID = a.TeamID
	return a.TeamID, nil
}
