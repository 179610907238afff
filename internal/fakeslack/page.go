package fakeslack

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed pages
var pageFiles embed.FS

const (
	maxShown       = 50 // messages of a channel
	refreshSeconds = 2
)

// registerPages registers the pages for people. Requests from other sites' pages cannot change anything.
func (s *Server) registerPages() {
	guard := http.NewCrossOriginProtection()
	for pattern, do := range map[string]http.HandlerFunc{
		"GET /{$}": s.servePage, "GET /channel": s.serveChannel, "GET /style.css": serveStyle,
		"POST /press": s.servePress, "POST /command": s.serveCommand,
	} {
		s.mux.Handle(pattern, guard.Handler(requireIPHost(do)))
	}
}

// requireIPHost accepts only requests for an IP address or localhost: another site's name could resolve to this machine
// (DNS rebinding).
func requireIPHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil {
			http.Error(w, "Host must be an IP address or localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func serveStyle(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, pageFiles, "pages/style.css")
}

// view is a channel and the user who views it.
type view struct {
	Channels []Channel
	Current  Channel
	Users    []User
	As       User
}

// Title is the page's title.
func (v view) Title() string { return fmt.Sprintf("#%s", v.Current.Name) }

// Query is the view in a URL.
func (v view) Query() template.URL {
	return template.URL(url.Values{"channel": {v.Current.ID}, "as": {v.As.ID}}.Encode())
}

// view finds the channel and the user, by default the first ones.
func (s *Server) view(channelID, userID string) view {
	v := view{Users: s.Users()}
	if u, ok := s.user(userID); ok {
		v.As = u
	} else if len(v.Users) > 0 {
		v.As = v.Users[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.channels {
		v.Channels = append(v.Channels, c.Channel)
	}
	if c := s.channelLocked(channelID); c != nil {
		v.Current = c.Channel
	} else if len(v.Channels) > 0 {
		v.Current = v.Channels[0]
	}
	return v
}

// servePage serves what surrounds a channel: the list of channels, the user, and the input of commands. The channel is
// a frame, so that its refresh does not interrupt typing.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	render(w, http.StatusOK, "page.html", s.view(q.Get("channel"), q.Get("as")))
}

// channelPage is a channel as one user sees it.
type channelPage struct {
	view
	Roots   []pageMessage
	Refresh int // seconds; 0: never
	Paused  bool
}

func (s *Server) serveChannel(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := channelPage{view: s.view(q.Get("channel"), q.Get("as")), Refresh: refreshSeconds, Paused: q.Get("pause") != ""}
	if p.Paused {
		p.Refresh = 0
	}
	all := append(s.Messages(p.Current.ID), s.Ephemerals(p.Current.ID, p.As.ID)...)
	p.Roots = newMessageRenderer(p.view).roots(all)
	render(w, http.StatusOK, "channel.html", p)
}

// messageRenderer renders messages for one user.
type messageRenderer struct {
	as    string            // ID
	names map[string]string // of users, by ID
}

func newMessageRenderer(v view) messageRenderer {
	r := messageRenderer{as: v.As.ID, names: make(map[string]string)}
	for _, u := range v.Users {
		r.names[u.ID] = u.Name
	}
	return r
}

// pageMessage is a message with its thread.
type pageMessage struct {
	Message
	As      string // ID of the user
	Blocks  []pageBlock
	Replies []pageMessage
}

// Version identifies the version that is shown.
func (m pageMessage) Version() string { return version(m.Message.Blocks) }

// Time is when the message was posted.
func (m pageMessage) Time() time.Time {
	sec, _, _ := strings.Cut(m.TS, ".")
	n, _ := strconv.ParseInt(sec, 10, 64)
	return time.Unix(n, 0).UTC()
}

// Initial is the author's initial.
func (m pageMessage) Initial() string { return strings.ToLower(m.Author[:1]) }

// roots returns the newest messages first, with their threads. A reply whose thread was deleted is shown alone.
func (r messageRenderer) roots(all []Message) []pageMessage {
	slices.SortStableFunc(all, func(a, b Message) int { return cmpTS(a.TS, b.TS) })
	byTS := make(map[string]int)
	var out []pageMessage
	for _, m := range all {
		if i, ok := byTS[m.Thread]; ok && m.Thread != "" {
			out[i].Replies = append(out[i].Replies, r.message(m))
			continue
		}
		byTS[m.TS] = len(out)
		out = append(out, r.message(m))
	}
	slices.Reverse(out)
	return out[:min(len(out), maxShown)]
}

func (r messageRenderer) message(m Message) pageMessage {
	p := pageMessage{Message: m, As: r.as}
	p.Author = cmp.Or(m.Author, "headgate")
	for i, b := range m.decodedBlocks() {
		p.Blocks = append(p.Blocks, r.block(b, b.id(i)))
	}
	if len(p.Blocks) == 0 && m.Text != "" {
		p.Blocks = []pageBlock{{Type: "section", Text: mrkdwn(m.Text, r.names)}}
	}
	return p
}

type pageBlock struct {
	Type    string
	ID      string
	Text    template.HTML
	Fields  []template.HTML
	Buttons []pageButton
}

type pageButton struct {
	Text, Action, Style string
	Link                string // URL that it opens; empty: the app is called
}

func (r messageRenderer) block(b block, id string) pageBlock {
	p := pageBlock{Type: b.Type, ID: id}
	if b.Text != nil {
		p.Text = r.text(*b.Text)
	}
	for _, f := range b.Fields {
		p.Fields = append(p.Fields, r.text(f))
	}
	for _, e := range b.Elements {
		if e.Type != "button" {
			p.Fields = append(p.Fields, mrkdwn(e.plainText(), r.names))
		}
	}
	for _, e := range b.buttons() {
		p.Buttons = append(p.Buttons, pageButton{Text: e.plainText(), Action: e.Action, Style: e.styleClass(), Link: httpURL(e.URL)})
	}
	return p
}

// styleClass is the style if it is known.
func (e element) styleClass() string {
	if e.Style == "primary" || e.Style == "danger" {
		return e.Style
	}
	return "plain"
}

// httpURL returns a URL if it is http or https.
func httpURL(s string) string {
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		return s
	}
	return ""
}

func (r messageRenderer) text(t text) template.HTML {
	if t.Type == "plain_text" {
		return template.HTML(template.HTMLEscapeString(t.Text))
	}
	return mrkdwn(t.Text, r.names)
}

// render writes a page. Its policy allows no scripts and nothing from other origins.
func render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	t, err := template.ParseFS(pageFiles, "pages/*.html")
	if err == nil {
		err = t.ExecuteTemplate(&b, name, data)
	}
	if err != nil {
		http.Error(w, "template error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; frame-src 'self'; form-action 'self'; "+
		"frame-ancestors 'self'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails when the reader has gone
}

// dialog is a confirmation, or a notice of an error.
type dialog struct {
	view
	TS, Version        string
	Block, Action      string
	Heading, Text      string
	Confirm, Deny      string
	Danger, NoticeOnly bool
}

// servePress presses a button, after its confirmation if it has one.
func (s *Server) servePress(w http.ResponseWriter, r *http.Request) {
	v := s.view(r.PostFormValue("channel"), r.PostFormValue("as"))
	b := buttonRef{version: r.PostFormValue("version"), block: r.PostFormValue("block"), action: r.PostFormValue("action")}
	i, c, err := s.newPress(r.PostFormValue("channel"), r.PostFormValue("ts"), b, r.PostFormValue("as"))
	if err != nil {
		renderNotice(w, v, err)
		return
	}
	if c != nil && r.PostFormValue("confirmed") != "yes" {
		q := dialog{view: v, TS: i.TS, Version: b.version, Block: b.block, Action: b.action,
			Heading: cmp.Or(c.Title.Text, "Are you sure?"), Text: c.Text.Text,
			Danger: c.Style == "danger" || i.Action.Style == "danger"}
		q.Confirm, q.Deny = cmp.Or(c.Confirm.Text, "Yes"), cmp.Or(c.Deny.Text, "Cancel")
		render(w, http.StatusOK, "ask.html", q)
		return
	}
	if _, err := s.Deliver(r.Context(), i); errors.Is(err, ErrBusy) {
		renderNotice(w, v, err)
		return
	}
	http.Redirect(w, r, "/channel?"+string(v.Query()), http.StatusSeeOther) // failures are shown in the channel
}

// serveCommand types a command.
func (s *Server) serveCommand(w http.ResponseWriter, r *http.Request) {
	v := s.view(r.PostFormValue("channel"), r.PostFormValue("as"))
	_, err := s.Command(r.Context(), r.PostFormValue("channel"), r.PostFormValue("as"), r.PostFormValue("line"))
	for _, known := range []error{ErrNoCommand, ErrNoUser, ErrNoChannel, ErrBusy} {
		if errors.Is(err, known) {
			renderNotice(w, v, err)
			return
		}
	}
	http.Redirect(w, r, "/?"+string(v.Query()), http.StatusSeeOther)
}

// renderNotice shows an error. Failures of the app are shown in the channel.
func renderNotice(w http.ResponseWriter, v view, err error) {
	render(w, http.StatusConflict, "ask.html", dialog{view: v, Heading: "That did not work", Text: err.Error(), NoticeOnly: true})
}

// mrkdwn renders Slack's markup as HTML. Everything else is escaped; only http and https links are kept. The names are
// those of users by ID; other IDs are shown as they are.
func mrkdwn(s string, names map[string]string) template.HTML {
	var b strings.Builder
	for s != "" {
		open := strings.IndexByte(s, '<')
		end := strings.IndexByte(s, '>')
		if open < 0 || end < open {
			b.WriteString(renderStyled(s))
			break
		}
		b.WriteString(renderStyled(s[:open]))
		b.WriteString(renderEntity(s[open+1:end], names))
		s = s[end+1:]
	}
	return template.HTML(b.String())
}

// renderEntity renders what is between < and >.
func renderEntity(s string, names map[string]string) string {
	target, label, labelled := strings.Cut(s, "|")
	switch {
	case strings.HasPrefix(target, "!date^"):
		return `<time title="` + escapeHTML(label) + `">` + escapeHTML(label) + `</time>`
	case strings.HasPrefix(target, "!subteam^"):
		if !labelled {
			label = strings.TrimPrefix(target, "!subteam^")
		}
		return `<mark>@` + escapeHTML(strings.TrimPrefix(label, "@")) + `</mark>`
	case strings.HasPrefix(target, "!"):
		return `<mark>@` + escapeHTML(target[1:]) + `</mark>`
	case strings.HasPrefix(target, "@"):
		if name, ok := names[target[1:]]; ok {
			target = "@" + name
		}
		return `<mark>` + escapeHTML(target) + `</mark>`
	case strings.HasPrefix(target, "http://"), strings.HasPrefix(target, "https://"):
		if !labelled {
			label = target
		}
		return `<a rel="noreferrer noopener" href="` + escapeHTML(target) + `">` + escapeHTML(label) + `</a>`
	default:
		return escapeHTML("<" + s + ">")
	}
}

// escapeHTML escapes text of Slack, which has three entities and no others.
func escapeHTML(s string) string {
	s = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
	return template.HTMLEscapeString(s)
}

var styles = regexp.MustCompile("`([^`\n]+)`|\\*([^*\n]+)\\*|\\b_([^_\n]+)_\\b")

func renderStyled(s string) string {
	var b strings.Builder
	last := 0
	for _, m := range styles.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(breakLines(s[last:m[0]]))
		for i, tag := range []string{"code", "strong", "em"} {
			if at := 2 + 2*i; m[at] >= 0 {
				b.WriteString("<" + tag + ">" + escapeHTML(s[m[at]:m[at+1]]) + "</" + tag + ">")
			}
		}
		last = m[1]
	}
	b.WriteString(breakLines(s[last:]))
	return b.String()
}

func breakLines(s string) string { return strings.ReplaceAll(escapeHTML(s), "\n", "<br>") }
