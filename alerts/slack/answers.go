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
	answerTime   = 10 * time.Second
	maxSaid      = 3000 // characters of an answer
	answerHost   = "hooks.slack.com"
	longestReply = 64 << 10 // bytes of what Slack says to an answer
)

// answers tell those who asked, and nobody else.
type answers struct {
	bot *Bot
	log *slog.Logger
}

// say tries the address that Slack gave, and then the channel.
func (s answers) say(ctx context.Context, c callback, a Answer) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	text := spoken(a.Text)
	err := s.respond(ctx, c.answer, text)
	if err != nil && c.channel != "" {
		_, err = s.bot.api.PostEphemeralContext(ctx, c.channel, c.user, slack.MsgOptionText(text, false))
	}
	if err != nil {
		s.log.Warn("somebody in Slack could not be answered", "user", c.user, "error", innermost(err, s.bot.token))
	}
}

var named = regexp.MustCompile(`\bslack:([UW][A-Z0-9]{2,20})\b`)

// spoken makes an answer's plain text fit for Slack.
func spoken(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		out, _ := clip(strings.TrimRight(line, "\n"), maxSaid)
		lines = append(lines, out)
	}
	return named.ReplaceAllString(cutMarkup(strings.Join(lines, "\n"), maxSaid), "<@$1>")
}

var errAnswerURL = errors.New("the address for the answer is none of Slack's")

// respond posts to a response_url. It goes nowhere but to Slack, or to where the
// API is said to be: the address comes from outside.
func (s answers) respond(ctx context.Context, to, text string) error {
	if !s.bot.answerable(to) {
		return errAnswerURL
	}
	body, err := json.Marshal(map[string]any{"response_type": "ephemeral", "replace_original": false, "text": text})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errAnswerURL // its text holds the address, which is a secret
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.bot.http.Do(req)
	if err != nil {
		return errors.New(innermost(err, to))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, longestReply)) // so that the connection can be used again
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// answerable says whether an address is one of Slack's own.
func (b *Bot) answerable(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	if u.Scheme == "https" && (u.Host == answerHost || u.Host == answerHost+":443") {
		return true
	}
	return u.Scheme == b.home.Scheme && u.Host == b.home.Host
}

// posts says whether a channel is one of the bot's.
func (b *Bot) posts(channel string) bool {
	for _, id := range b.channels {
		if id == channel {
			return true
		}
	}
	return false
}

// team returns the ID of the workspace. It is asked for once.
func (b *Bot) team(ctx context.Context) (string, error) {
	b.mu.Lock()
	team := b.teamID
	b.mu.Unlock()
	if team != "" {
		return team, nil
	}
	a, err := b.api.AuthTestContext(ctx)
	if err != nil || a.TeamID == "" {
		return "", errors.New(b.why(err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.teamID = a.TeamID
	return a.TeamID, nil
}
