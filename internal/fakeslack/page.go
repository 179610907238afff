package fakeslack

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html
var pageSource string

// shown is how many of a channel's messages the page has.
const shown = 50

type pageData struct {
	Channels []Channel
	Current  Channel
	Roots    []pageMessage
	Refresh  int // seconds
}

type pageMessage struct {
	Time    string
	Exact   string
	Edited  int
	Blocks  []pageBlock
	Replies []pageMessage
	File    string
	Also    bool // shown in the channel too
}

type pageBlock struct {
	Type   string
	Text   template.HTML
	Fields []template.HTML
	Button []string
}

// servePage shows a channel, chosen by ?channel=, as people see it.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	t, err := template.New("page").Parse(pageSource)
	if err != nil {
		http.Error(w, "the page is broken", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = t.Execute(w, s.page(r.URL.Query().Get("channel"))) // the reader has gone
}

func (s *Server) page(id string) pageData {
	p := pageData{Refresh: 2}
	s.mu.Lock()
	for _, c := range s.channels {
		p.Channels = append(p.Channels, c.Channel)
	}
	current := s.channelLocked(id)
	if current == nil && len(s.channels) > 0 {
		current = s.channels[0]
	}
	if current != nil {
		p.Current = current.Channel
	}
	s.mu.Unlock()
	ms := s.Messages(p.Current.ID)
	threads := make(map[string][]pageMessage)
	for _, m := range ms {
		if m.Thread != "" {
			threads[m.Thread] = append(threads[m.Thread], show(m))
		}
	}
	for _, m := range ms {
		if m.Thread == "" {
			root := show(m)
			root.Replies = threads[m.TS]
			p.Roots = append(p.Roots, root)
		}
	}
	slices.Reverse(p.Roots)
	p.Roots = p.Roots[:min(len(p.Roots), shown)]
	return p
}

func show(m Message) pageMessage {
	at := tsTime(m.TS)
	p := pageMessage{
		Time: at.Format("15:04:05"), Exact: at.Format(time.RFC3339) + " · ts " + m.TS,
		Edited: len(m.Versions), File: m.File, Also: m.Broadcast,
	}
	var all []block
	if m.Blocks != nil {
		_ = json.Unmarshal(m.Blocks, &all) // was checked when it came
	}
	for _, b := range all {
		p.Blocks = append(p.Blocks, showBlock(b))
	}
	if len(all) == 0 && m.Text != "" {
		p.Blocks = []pageBlock{{Type: "section", Text: mrkdwn(m.Text)}}
	}
	return p
}

func showBlock(b block) pageBlock {
	p := pageBlock{Type: b.Type}
	if b.Text != nil {
		p.Text = words(*b.Text)
	}
	for _, f := range b.Fields {
		p.Fields = append(p.Fields, words(f))
	}
	for _, e := range b.Elements {
		if e.Type == "button" {
			p.Button = append(p.Button, e.words())
			continue
		}
		p.Fields = append(p.Fields, mrkdwn(e.words()))
	}
	return p
}

func words(t text) template.HTML {
	if t.Type == "plain_text" {
		return template.HTML(template.HTMLEscapeString(t.Text))
	}
	return mrkdwn(t.Text)
}

func tsTime(ts string) time.Time {
	sec, _, _ := strings.Cut(ts, ".")
	n, _ := strconv.ParseInt(sec, 10, 64)
	return time.Unix(n, 0).UTC()
}

// Title is what the page is called in a browser's tab.
func (p pageData) Title() string { return fmt.Sprintf("#%s", p.Current.Name) }
