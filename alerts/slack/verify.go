package slack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slack-go/slack"
)

// VerifySocket tries whether a connection for buttons and commands would be let in.
// It opens none. No detail holds the token.
func VerifySocket(ctx context.Context, appToken, apiURL string) Check {
	c := Check{Name: "buttons: socket"}
	c.OK, c.Detail = openSocketURL(ctx, appToken, apiURL)
	if !c.OK {
		c.Hint = "make an app-level token with the scope connections:write on the app's page Basic Information, and enable Socket Mode"
	}
	return c
}

// Check is one thing that was tried.
type Check struct {
	Name   string `json:"name"` // what was tried
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was found
	Hint   string `json:"hint"`   // what to do if it failed, or empty
}

// Verify tries what delivering needs: the token, its scopes, and in each channel
// membership, a post, an edit, a look-up and a deletion. It goes on where it can,
// and leaves nothing behind if all works. No detail holds the token.
func (b *Bot) Verify(ctx context.Context) []Check {
	token, scopes, ok := b.verifyToken(ctx)
	checks := append([]Check{token}, scopes...)
	if !ok {
		return checks
	}
	seen := make(map[string]bool)
	for _, to := range slices.Sorted(maps.Keys(b.channels)) {
		if id := b.channels[to]; !seen[id] {
			seen[id] = true
			checks = append(checks, b.verifyChannel(ctx, string(to), id)...)
		}
	}
	return checks
}

func (b *Bot) verifyToken(ctx context.Context) (Check, []Check, bool) {
	c := Check{Name: "token"}
	a, err := b.api.AuthTestContext(ctx)
	if err != nil || a.UserID == "" {
		c.Detail = b.failureReason(err)
		c.Hint = "copy the Bot User OAuth Token (xoxb-…) from the app's page OAuth & Permissions"
		return c, nil, false
	}
	c.OK, c.Detail = true, fmt.Sprintf("%s in %s", truncateReason(a.User), truncateReason(a.Team))
	return c, b.checkScopes(strings.Join(a.Header.Values("X-Oauth-Scopes"), ",")), true
}

func openSocketURL(ctx context.Context, appToken, apiURL string) (ok bool, found string) {
	api, hc, err := newSocketAPI(appToken, apiURL)
	if err != nil {
		return false, err.Error()
	}
	defer hc.CloseIdleConnections()
	_, where, err := api.StartSocketModeContext(ctx)
	switch {
	case err != nil:
		return false, classifyError(err, true, appToken).Reason
	case where == "":
		return false, "the answer is none"
	default:
		return true, "Slack lets the app connect"
	}
}

// scopeNeed is a scope, or one that does as well, and what it is for.
type scopeNeed struct {
	anyOf   []string
	purpose string
}

// checkScopes compares what the token may with what is needed. Without the header
// nothing can be said.
func (b *Bot) checkScopes(header string) []Check {
	if header == "" {
		return nil
	}
	var has []string
	for s := range strings.SplitSeq(header, ",") {
		has = append(has, strings.TrimSpace(s))
	}
	needs := []scopeNeed{
		{[]string{"chat:write"}, "to post"},
		{[]string{"channels:history", "groups:history"}, "to find out whether a message has arrived"},
		{[]string{"channels:read", "groups:read"}, "to look at the channel"},
	}
	if b.renderer.withButtons {
		needs = append(needs, scopeNeed{[]string{"commands"}, "to be told of /headgate"})
	}
	var out []Check
	for _, n := range needs {
		c := Check{Name: "scope " + n.anyOf[0], OK: slices.ContainsFunc(n.anyOf, func(s string) bool { return slices.Contains(has, s) })}
		c.Detail = n.purpose
		if !c.OK {
			c.Hint = fmt.Sprintf("add %s under OAuth & Permissions and reinstall the app", strings.Join(n.anyOf, " or "))
		}
		out = append(out, c)
	}
	return out
}

func (b *Bot) verifyChannel(ctx context.Context, name, id string) []Check {
	checks := []Check{b.verifyMember(ctx, name, id)}
	post := Check{Name: name + ": post"}
	text := "headgate: a test message. It removes itself."
	_, ts, err := b.api.PostMessageContext(ctx, id, slack.MsgOptionText(text, false), slack.MsgOptionMetadata(probeMetadata))
	if err != nil || ts == "" {
		post.Detail, post.Hint = b.failureReason(err), inviteHint
		return append(checks, post)
	}
	post.OK, post.Detail = true, id
	checks = append(checks, post)
	_, edited, _, err := b.api.UpdateMessageContext(ctx, id, ts, slack.MsgOptionText(text+" (edited)", false))
	checks = append(checks, b.newCheck(name+": edit", err, edited != ""))
	checks = append(checks, b.verifyLookup(ctx, name, id, ts))
	_, gone, err := b.api.DeleteMessageContext(ctx, id, ts)
	return append(checks, b.newCheck(name+": delete", err, gone != ""))
}

var probeMetadata = slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"kind": "test"}}

const inviteHint = "write /invite @headgate in the channel, and check that it is not archived"

func (b *Bot) verifyMember(ctx context.Context, name, id string) Check {
	c := Check{Name: name + ": channel"}
	ch, err := b.api.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: id})
	switch {
	case err != nil:
		c.Detail, c.Hint = b.failureReason(err), inviteHint
	case ch.ID == "":
		c.Detail = b.failureReason(nil)
	case ch.IsArchived:
		c.Detail, c.Hint = "#"+truncateReason(ch.Name)+" is archived", "choose another channel, or unarchive it"
	case !ch.IsMember:
		c.Detail, c.Hint = "the bot is not in #"+truncateReason(ch.Name), inviteHint
	default:
		c.OK, c.Detail = true, "#"+truncateReason(ch.Name)
	}
	return c
}

func (b *Bot) verifyLookup(ctx context.Context, name, id, ts string) Check {
	h, err := b.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: id, Oldest: ts, Latest: ts, Inclusive: true, Limit: 1, IncludeAllMetadata: true,
	})
	found := err == nil && slices.ContainsFunc(h.Messages, func(m slack.Message) bool { return m.Timestamp == ts })
	c := b.newCheck(name+": look up", err, found)
	if !c.OK {
		c.Hint = "without it, a message whose outcome is not known is sent twice; the scope channels:history (groups:history) allows it"
	}
	return c
}

func (b *Bot) newCheck(name string, err error, ok bool) Check {
	c := Check{Name: name, OK: err == nil && ok}
	if !c.OK {
		c.Detail = b.failureReason(err)
	}
	return c
}

func (b *Bot) failureReason(err error) string {
	if err == nil {
		return "the answer is none"
	}
	return classifyError(err, true, b.token).Reason
}
