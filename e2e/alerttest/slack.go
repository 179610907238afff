package alerttest

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/internal/fakeslack"
)

// Token is the bot token that the gate has.
const Token = "xoxb-1111-2222-fakebottoken"

// AppToken is the app token that the gate has if it takes presses.
const AppToken = "xapp-1-A0FAKE-1-fakeapptoken"

// ButtonSettings is what a desk's Slack needs beside that, for buttons: all of it is
// allowed to ada.
const ButtonSettings = `, app_token: "` + AppToken + `", allow: {rollback: [U0ADA], restore: [U0ADA], ack: [U0ADA], silence: [U0ADA]}`

// The channels.
const (
	PageChannel     = "C0PAGE"
	FallbackChannel = "C0FALLBACK"
)

// Mention is who is called.
const Mention = "<!here>"

// Slack is a Slack behind a real listener, which can go away and come back.
type Slack struct {
	*fakeslack.Server
	address string
	mu      sync.Mutex
	server  *http.Server // nil while it is away
}

// StartSlack starts a Slack with the channels, as strict as Slack about how often
// one may post.
func StartSlack(t testing.TB, seed uint64) *Slack {
	t.Helper()
	s := &Slack{
		Server:  fakeslack.New(fakeslack.Options{Token: Token, RateLimited: true, Seed: seed}),
		address: "127.0.0.1:0",
	}
	s.SetChannel(fakeslack.Channel{ID: PageChannel, Name: "page", Member: true})
	s.SetChannel(fakeslack.Channel{ID: FallbackChannel, Name: "fallback", Member: true, Secret: "hook"})
	s.GoOnline(t)
	t.Cleanup(s.GoOffline)
	return s
}

// URL is the base of everything.
func (s *Slack) URL() string { return "http://" + s.address }

// GoOnline listens, after GoOffline at the address of before.
func (s *Slack) GoOnline(t testing.TB) {
	t.Helper()
	var l net.Listener
	Eventually(t, "Slack can listen", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", s.address)
		return err == nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = l.Addr().String()
	s.server = &http.Server{Handler: s.Server, ReadHeaderTimeout: time.Minute}
	go func(h *http.Server) { _ = h.Serve(l) }(s.server) // until GoOffline
}

// GoOffline cuts all connections and refuses new ones.
func (s *Slack) GoOffline() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		_ = s.server.Close() // nothing is lost with it
		s.server = nil
	}
}

// Post is a message, by what it is about.
type Post struct {
	fakeslack.Message
	Incident string
	Seq      int
	Kind     string // post, edit or reply, as it was sent first
}

// Posts returns the messages of a channel that are about incidents, oldest first.
func (s *Slack) Posts(t testing.TB, channel string) []Post {
	t.Helper()
	var all []Post
	for _, m := range s.Messages(channel) {
		var meta struct {
			Payload struct {
				Incident, Seq, Kind string
			} `json:"event_payload"`
		}
		if len(m.Metadata) == 0 || json.Unmarshal(m.Metadata, &meta) != nil || meta.Payload.Incident == "" {
			t.Fatalf("a message does not say what it is about: %+v", m)
		}
		seq, err := strconv.Atoi(meta.Payload.Seq)
		if err != nil {
			t.Fatalf("metadata %s: %v", m.Metadata, err)
		}
		all = append(all, Post{m, meta.Payload.Incident, seq, meta.Payload.Kind})
	}
	return all
}

// PostsAbout returns the posts about an incident: its messages in the channel, and the
// replies in their threads.
func (s *Slack) PostsAbout(t testing.TB, channel, incident string) (roots, replies []Post) {
	t.Helper()
	for _, p := range s.Posts(t, channel) {
		switch {
		case p.Incident != incident:
		case p.Thread == "":
			roots = append(roots, p)
		default:
			replies = append(replies, p)
		}
	}
	return roots, replies
}

// OnlyPost returns the one message about an incident, and its thread.
func (s *Slack) OnlyPost(t testing.TB, channel, incident string) (Post, []Post) {
	t.Helper()
	roots, replies := s.PostsAbout(t, channel, incident)
	if len(roots) != 1 {
		t.Fatalf("%d messages about incident %s in %s, want one: %+v", len(roots), incident, channel, roots)
	}
	for _, r := range replies {
		if r.Thread != roots[0].TS {
			t.Errorf("a reply stands in another thread: %+v", r)
		}
	}
	return roots[0], replies
}

// AllText is all that a message says, its line for notifications and its blocks.
func (p Post) AllText() string { return p.Text + "\n" + unescaped(p.Blocks) }

func unescaped(blocks json.RawMessage) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(blocks))
}
