package demo

import (
	"crypto/rand"
	"fmt"
	"strings"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
)

const (
	channelID = "C0DEMO"
	pageGroup = "<!here>" // who is pinged
)

// channel is a stand-in for Slack with one channel, so that an incident has one
// message whatever its level. It is a page as well.
type channel struct {
	slack    *fakeslack.Server
	token    string // of the bot
	appToken string // of the socket over which presses come
	*site
}

func newChannel(p Plan, failed chan<- error) (*channel, error) {
	c := &channel{token: "xoxb-demo-" + rand.Text(), appToken: "xapp-1-" + fakeslack.AppID + "-demo-" + rand.Text()}
	c.slack = fakeslack.New(fakeslack.Options{
		Token: c.token, AppToken: c.appToken, Users: people(), Limited: true, Seed: p.Seed,
	})
	name := "headgate-demo"
	if p.Speed != 1 {
		name = fmt.Sprintf("headgate-demo-at-%gx", p.Speed)
	}
	c.slack.SetChannel(fakeslack.Channel{ID: channelID, Name: name, Member: true})
	var err error
	c.site, err = newSite("stand-in for Slack", c.slack, failed)
	return c, err
}

func (c *channel) page() string { return "http://" + c.address + "/" }

// Those who look at the channel. The last one may look only.
const (
	firstUser = "U0ADA"
	otherUser = "U0BEN"
	guestUser = "U0EVE"
)

func people() []fakeslack.User {
	return []fakeslack.User{{ID: firstUser, Name: "ada"}, {ID: otherUser, Name: "ben"}, {ID: guestUser, Name: "eve"}}
}

// who names an actor as the channel does.
func who(actor string) string {
	for _, u := range people() {
		if actor == "slack:"+u.ID {
			return u.Name + " in Slack"
		}
	}
	return actor
}

// settings say where messages go, and who may press what.
func (c *channel) settings() config.Slack {
	may := func() []string { return []string{firstUser, otherUser} }
	return config.Slack{
		BotToken: config.NewSecret(c.token), AppToken: config.NewSecret(c.appToken), APIURL: c.page() + "api/",
		Channels: config.Channels{Page: channelID}, Mention: config.Mention{Page: pageGroup},
		Allow: config.Allow{Rollback: may(), Restore: may(), Drill: may(), Ack: may(), Silence: may()},
	}
}

// close breaks off what is being served, sockets too.
func (c *channel) close() error {
	c.slack.Close()
	return c.site.close()
}

// Traffic is what stands in the channel.
type Traffic struct {
	Messages int `json:"messages"` // one for each incident
	Replies  int `json:"replies"`  // in their threads
	Edits    int `json:"edits"`    // of messages
	Pings    int `json:"pings"`    // messages and replies that called people
}

// traffic counts, and returns the latest message on one line.
func (c *channel) traffic() (t Traffic, last string) {
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
	return t, oneLine(last)
}

// oneLine takes Slack's markup out of a message's text.
func oneLine(text string) string {
	pairs := []string{pageGroup, "@here", "&lt;", "<", "&gt;", ">", "&amp;", "&"}
	for _, u := range people() {
		pairs = append(pairs, "<@"+u.ID+">", "@"+u.Name)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
