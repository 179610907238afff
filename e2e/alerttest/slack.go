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

// Token is the bot token of the gate.
const Token = "xoxb-1111-2222-fakebottoken"

// AppToken is the app token of a gate that handles buttons.
const AppToken = "xapp-1-A0FAKE-1-fakeapptoken"

// ButtonSettings are further slack settings, for buttons: the user ada may use all of them.
const ButtonSettings = `, app_token: "` + AppToken + `", allow: {rollback: [U0ADA], restore: [U0ADA], ack: [U0ADA], silence: [U0ADA]}`

// Channels.
const (
	PageChannel     = "C0PAGE"
	FallbackChannel = "C0FALLBACK"
)

// Mention is the mention in pages.
const Mention = "<!here>"

// Slack is a fake Slack behind a real listener, which can go offline and online.
type Slack struct {
	*fakeslack.Server
	address string
	mu      sync.Mutex
	server  *http.Server // nil while offline
}

// StartSlack starts a Slack with the channels and with the rate limits of Slack.
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

// URL is the base URL.
func (s *Slack) URL() string { return "http://" + s.address }

// GoOnline listens; after GoOffline, at the same address.
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

// GoOffline closes all connections and refuses new ones.
func (s *Slack) GoOffline() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		_ = s.server.Close() // the error changes nothing
		s.server = nil
	}
}

// Post is a message with the incident and the event that it is about.
type Post struct {
	fakeslack.Message
	Incident string
	Seq      int
	Kind     string // post, edit or reply, as first sent
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
			t.Fatalf("a message without an incident in its metadata: %+v", m)
		}
		seq, err := strconv.Atoi(meta.Payload.Seq)
		if err != nil {
			t.Fatalf("metadata %s: %v", m.Metadata, err)
		}
		all = append(all, Post{m, meta.Payload.Incident, seq, meta.Payload.Kind})
	}
	return all
}

// PostsAbout returns the messages about an incident in the channel, and the replies in
// their threads.
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

// OnlyPost returns the only message about an incident, and its thread.
func (s *Slack) OnlyPost(t testing.TB, channel, incident string) (Post, []Post) {
	t.Helper()
	roots, replies := s.PostsAbout(t, channel, incident)
	if len(roots) != 1 {
		t.Fatalf("%d messages about incident %s in %s, want one: %+v", len(roots), incident, channel, roots)
	}
	for _, r := range replies {
		if r.Thread != roots[0].TS {
			t.Errorf("a reply is in another thread: %+v", r)
		}
	}
	return roots[0], replies
}

// AllText is the text of a message: its notification text and its blocks.
func (p Post) AllText() string { return p.Text + "\n" + unescaped(p.Blocks) }

func unescaped(blocks json.RawMessage) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(blocks))
}
