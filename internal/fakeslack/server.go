package fakeslack

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// AppID is the ID of the only app. Its app-level token, if it is to look like Slack's, begins with xapp-1-A0FAKE-.
const AppID = "A0FAKE"

const (
	teamID            = "T0FAKE"
	botUser           = "U0FAKE"
	verificationToken = "verification-token-of-old" // Slack still sends it; apps should ignore it
)

// Limits of what a Server keeps and reads. The oldest entries are dropped first.
const (
	maxMessages  = 10_000 // of a channel
	maxVersions  = 100    // of a message
	maxCalls     = 20_000
	maxEphemeral = 1_000 // of a channel
	maxBody      = 4 << 20
)

// Options of a Server. The zero value accepts any token.
type Options struct {
	Token       string           // the bot token; empty: any
	Scopes      []string         // of the token; nil: all that are needed
	RateLimited bool             // one post per second and channel, as Slack allows
	Seed        uint64           // of faults that hit by chance
	Now         func() time.Time // nil: the clock

	AppToken        string        // of Socket Mode; empty: any that begins with xapp-
	Users           []User        // nil: DefaultUsers
	ResponseTimeout time.Duration // of an interaction; 0: 3 s, as Slack allows
	PingInterval    time.Duration // between two pings over a socket; 0: 5 s
}

// User is a person who reads the channels, presses buttons and types commands.
type User struct {
	ID   string // U… or W…
	Name string // as others see it
	Team string // empty: this workspace
}

// DefaultUsers returns the users of a Server whose options name none.
func DefaultUsers() []User {
	return []User{{ID: "U0ADA", Name: "ada"}, {ID: "U0BEN", Name: "ben"}, {ID: "U0EVE", Name: "eve"}}
}

// Server is a Slack in memory and an http.Handler. Its methods may be called from any goroutine.
type Server struct {
	o      Options
	mux    *http.ServeMux
	client *http.Client // sends interactions

	mu       sync.Mutex
	channels []*channel
	lastTS   int64 // microseconds
	faults   []*fault
	random   *rand.Rand
	calls    []Call

	base         string // URL, as the app's latest call had it
	callbacks    Callbacks
	receipts     []Receipt
	inFlight     int // interactions that wait for an answer
	responseURLs []*responseURL
	tickets      []ticket
	sockets      []*socket
	closed       bool
	changed      chan struct{} // closed when something that is awaited may have changed
	socketsDone  sync.WaitGroup
}

// New returns a Server without channels.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Scopes == nil {
		o.Scopes = []string{"channels:history", "channels:read", "chat:write", "commands"}
	}
	if o.Users == nil {
		o.Users = DefaultUsers()
	}
	if o.ResponseTimeout <= 0 {
		o.ResponseTimeout = 3 * time.Second
	}
	if o.PingInterval <= 0 {
		o.PingInterval = 5 * time.Second
	}
	s := &Server{
		o: o, mux: http.NewServeMux(), client: newClient(), changed: make(chan struct{}),
		random: rand.New(rand.NewPCG(o.Seed, o.Seed)),
	}
	s.mux.HandleFunc("/api/{method}", s.serveAPI)
	s.mux.HandleFunc("POST /services/{channel}/{secret}", s.serveWebhook)
	s.mux.HandleFunc("POST /actions/{team}/{id}", s.serveResponse)
	s.mux.HandleFunc("POST /commands/{team}/{id}", s.serveResponse)
	s.mux.HandleFunc("GET /link/{$}", s.serveSocket)
	s.registerPages()
	return s
}

// ServeHTTP serves the API, webhooks, response URLs, sockets and pages.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

// Channel describes a channel.
type Channel struct {
	ID       string
	Name     string // without #
	Member   bool   // the bot is in it
	Archived bool
	Secret   string // last part of its webhook's path; empty: it has none
}

type channel struct {
	Channel
	messages  []*Message // in the order of their ts
	ephemeral []*Message
	lastPost  time.Time
}

// SetChannel adds or changes a channel.
func (s *Server) SetChannel(c Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.channelLocked(c.ID); old != nil {
		old.Channel = c
		return
	}
	s.channels = append(s.channels, &channel{Channel: c})
}

// channelLocked finds a channel by its ID or its name.
func (s *Server) channelLocked(id string) *channel {
	for _, c := range s.channels {
		if c.ID == id || c.Name != "" && c.Name == strings.TrimPrefix(id, "#") {
			return c
		}
	}
	return nil
}

// tsLocked returns a ts that no message has.
func (s *Server) tsLocked() string {
	s.lastTS = max(s.lastTS+1, s.o.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", s.lastTS/1e6, s.lastTS%1e6)
}

// appendBounded drops the oldest entries beyond the limit.
func appendBounded[T any](all []T, x T, limit int) []T {
	all = append(all, x)
	return slices.Delete(all, 0, max(0, len(all)-limit))
}

// Users returns the known users.
func (s *Server) Users() []User { return slices.Clone(s.o.Users) }

func (s *Server) user(id string) (User, bool) {
	i := slices.IndexFunc(s.o.Users, func(u User) bool { return u.ID == id })
	if i < 0 {
		return User{}, false
	}
	return s.o.Users[i], true
}

func (u User) team() string {
	if u.Team == "" {
		return teamID
	}
	return u.Team
}
