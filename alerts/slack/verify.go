package slack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slack-go/slack"
)

// Check is one thing that was tested.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was found; holds no token
	Hint   string `json:"hint"`   // how to fix it if it failed
}

const inviteHint = "write /invite @headgate in the channel, and check that it is not archived"

// Verify tests what delivery needs: the token, its scopes, and in each channel membership, a post, an edit, a look-up
// and a deletion. It continues after failures where it can, and leaves nothing behind if everything works.
func (b *Bot) Verify(ctx context.Context) []Check {
	a, err := b.api.AuthTestContext(ctx)
	if err != nil || a.UserID == "" {
		return []Check{{
			Name: "token", Detail: b.failureReason(err),
			Hint: "copy the Bot User OAuth Token (xoxb-…) from the app's page OAuth & Permissions",
		}}
	}
	checks := []Check{{Name: "token", OK: true, Detail: fmt.Sprintf("%s in %s", truncateReason(a.User), truncateReason(a.Team))}}
	checks = append(checks, b.checkScopes(strings.Join(a.Header.Values("X-Oauth-Scopes"), ","))...)
	seen := make(map[string]bool)
	for _, to := range slices.Sorted(maps.Keys(b.channels)) {
		if id := b.channels[to]; !seen[id] {
			seen[id] = true
			checks = append(checks, b.verifyChannel(ctx, string(to), id)...)
		}
	}
	return checks
}

// checkScopes compares the token's scopes with those that are needed. Without the header they are not known.
func (b *Bot) checkScopes(header string) []Check {
	if header == "" {
		return nil
	}
	var has []string
	for s := range strings.SplitSeq(header, ",") {
		has = append(has, strings.TrimSpace(s))
	}
	needs := []struct {
		anyOf   []string
		purpose string
	}{
		{[]string{"chat:write"}, "to post"},
		{[]string{"channels:history", "groups:history"}, "to find out whether a message has arrived"},
		{[]string{"channels:read", "groups:read"}, "to read the channel"},
		{[]string{"commands"}, "to receive /headgate commands"},
	}
	if !b.renderer.withButtons {
		needs = needs[:len(needs)-1]
	}
	var out []Check
	for _, n := range needs {
		c := Check{Name: "scope " + n.anyOf[0], Detail: n.purpose}
		c.OK = slices.ContainsFunc(n.anyOf, func(s string) bool { return slices.Contains(has, s) })
		if !c.OK {
			c.Hint = fmt.Sprintf("add %s under OAuth & Permissions and reinstall the app", strings.Join(n.anyOf, " or "))
		}
		out = append(out, c)
	}
	return out
}

var probeMetadata = slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"kind": "test"}}

func (b *Bot) verifyChannel(ctx context.Context, name, id string) []Check {
	const text = "headgate: a test message. It removes itself."
	checks := []Check{b.verifyMember(ctx, name, id)}
	_, ts, err := b.api.PostMessageContext(ctx, id, slack.MsgOptionText(text, false), slack.MsgOptionMetadata(probeMetadata))
	post := b.newCheck(name+": post", err, ts != "", inviteHint)
	if !post.OK {
		return append(checks, post)
	}
	post.Detail = id
	_, edited, _, editErr := b.api.UpdateMessageContext(ctx, id, ts, slack.MsgOptionText(text+" (edited)", false))
	h, err := b.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: id, Oldest: ts, Latest: ts, Inclusive: true, Limit: 1, IncludeAllMetadata: true,
	})
	found := err == nil && slices.ContainsFunc(h.Messages, func(m slack.Message) bool { return m.Timestamp == ts })
	_, gone, deleteErr := b.api.DeleteMessageContext(ctx, id, ts)
	return append(checks, post,
		b.newCheck(name+": edit", editErr, edited != "", ""),
		b.newCheck(name+": look up", err, found, "without it, a message whose outcome is not known is sent twice; "+
			"the scope channels:history (groups:history) allows it"),
		b.newCheck(name+": delete", deleteErr, gone != "", ""))
}

func (b *Bot) verifyMember(ctx context.Context, name, id string) Check {
	ch, err := b.api.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: id})
	c := b.newCheck(name+": channel", err, err == nil && ch.ID != "", inviteHint)
	if !c.OK {
		return c
	}
	switch channel := "#" + truncateReason(ch.Name); {
	case ch.IsArchived:
		c.OK, c.Detail, c.Hint = false, channel+" is archived", "choose another channel, or unarchive it"
	case !ch.IsMember:
		c.OK, c.Detail, c.Hint = false, "the bot is not in "+channel, inviteHint
	default:
		c.Detail = channel
	}
	return c
}

// newCheck returns the check of a call. OK says whether its response has the expected content.
func (b *Bot) newCheck(name string, err error, ok bool, hint string) Check {
	if err == nil && ok {
		return Check{Name: name, OK: true}
	}
	return Check{Name: name, Detail: b.failureReason(err), Hint: hint}
}

func (b *Bot) failureReason(err error) string {
	if err == nil {
		return errEmptyResponse.Error()
	}
	return classifyError(err, true, b.token).Reason
}

// Verify tests whether interactions can be received, and says who may do what. It opens no connection.
func (o InteractionOptions) Verify(ctx context.Context) []Check {
	var checks []Check
	if o.AppToken != "" {
		checks = append(checks, verifySocket(ctx, o.AppToken, o.APIURL))
	}
	if o.Listen != "" {
		checks = append(checks, Check{
			Name: "buttons: requests", OK: true,
			Detail: "accepted at " + o.Listen + "; press a button to test whether Slack can reach it",
		})
	}
	for _, list := range []struct {
		name   string
		action Action
	}{{"roll back", Rollback}, {"restore", Restore}, {"run drills", Drill}, {"acknowledge", Ack}, {"silence", Silence}} {
		detail := "nobody: the list is empty"
		if n := len(o.Allow[list.action]); n > 0 {
			detail = fmt.Sprintf("%d of slack.allow", n)
		}
		checks = append(checks, Check{Name: "may " + list.name, OK: true, Detail: detail})
	}
	return checks
}

// verifySocket tests whether Slack would accept a Socket Mode connection.
func verifySocket(ctx context.Context, appToken, apiURL string) Check {
	c := Check{
		Name: "buttons: socket",
		Hint: "make an app-level token with the scope connections:write on the app's page Basic Information, and enable Socket Mode",
	}
	api, hc, err := newSocketAPI(appToken, apiURL)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	defer hc.CloseIdleConnections()
	switch _, where, err := api.StartSocketModeContext(ctx); {
	case err != nil:
		c.Detail = classifyError(err, true, appToken).Reason
	case where == "":
		c.Detail = errEmptyResponse.Error()
	default:
		c = Check{Name: c.Name, OK: true, Detail: "Slack accepts connections of the app"}
	}
	return c
}
