package demo

import (
	"crypto/rand"
	"fmt"
	"strings"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
)

const (
	channelID   = "C0DEMO"
	pageMention = "<!here>" // who is pinged
)

// slackChannel is a stand-in for Slack with one channel, so that an incident has one
// message whatever its level. It is a page as well.
type slackChannel struct {
	slack    *fakeslack.Server
	token    string // of the bot
	appToken string // of the socket over which presses come
	*httpServer
}

func newChannel(p Plan, failed chan<- error) (*slackChannel, error) {
	c := &slackChannel{token: "xoxb-demo-" + rand.Text(), appToken: "xapp-1-" + fakeslack.AppID + "-demo-" + rand.Text()}
	c.slack = fakeslack.New(fakeslack.Options{
		Token: c.token, AppToken: c.appToken, Users: users(), RateLimited: true, Seed: p.Seed,
	})
	name := "headgate-demo"
	if p.Speed != 1 {
		name = fmt.Sprintf("headgate-demo-at-%gx", p.Speed)
	}
	c.slack.SetChannel(fakeslack.Channel{ID: channelID, Name: name, Member: true})
	var err error
	c.httpServer, err = newHTTPServer("stand-in for Slack", c.slack, failed)
	return c, err
}

func (c *slackChannel) pageURL() string { return "http://" + c.address + "/" }

// Those who look at the channel. The last one may look only.
const (
	firstUser = "U0ADA"
	otherUser = "U0BEN"
	guestUser = "U0EVE"
)

func users() []fakeslack.User {
	return []fakeslack.User{{ID: firstUser, Name: "ada"}, {ID: otherUser, Name: "ben"}, {ID: guestUser, Name: "eve"}}
}

// actorName names an actor as the channel does.
func actorName(actor string) string {
	for _, u := range users() {
		if actor == "slack:"+u.ID {
			return u.Name + " in Slack"
		}
	}
	return actor
}

// settings say where messages go, and who may press what.
func (c *slackChannel) settings() config.Slack {
	may := func() []string { return []string{firstUser, otherUser} }
	return config.Slack{
		BotToken: config.NewSecret(c.token), AppToken: config.NewSecret(c.appToken), APIURL: c.pageURL() + "api/",
		Channels: config.Channels{Page: channelID}, Mention: config.Mention{Page: pageMention},
		Allow: config.Allow{Rollback: may(), Restore: may(), Drill: may(), Ack: may(), Silence: may()},
	}
}

// close breaks off what is being served, sockets too.
func (c *slackChannel) close() error {
	c.slack.Close()
	return c.httpServer.close()
}

// MessageCounts is what stands in the channel.
type MessageCounts struct {
	Messages int `json:"messages"` // one for each incident
	Replies  int `json:"replies"`  // in their threads
	Edits    int `json:"edits"`    // of messages
	Pings    int `json:"pings"`    // messages and replies that called people
}

// messageCounts counts, and returns the latest message on one line.
func (c *slackChannel) messageCounts() (t MessageCounts, last string) {
	for _, m := range c.slack.Messages(channelID) {
		t.Edits += len(m.Versions)
		if len(m.Pings) > 0 {
			t.Pings++
		}
		if m.Thread != "" {
			t.Replies++
		} else {
			t.Messages++
		}
		last = m.Text
	}
	return t, stripMarkup(last)
}

// stripMarkup takes Slack's markup out of a message's text.
func stripMarkup(text string) string {
	pairs := []string{pageMention, "@here", "&lt;", "<", "&gt;", ">", "&amp;", "&"}
	for _, u := range users() {
		pairs = append(pairs, "<@"+u.ID+">", "@"+u.Name)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
