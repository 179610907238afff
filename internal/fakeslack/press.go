package fakeslack

import (
	"errors"
	"net/http"
)

// question is a confirmation, or a notice that something cannot be.
type question struct {
	view
	TS, Version        string
	Block, Action      string
	Heading, Words     string
	Confirm, Deny      string
	Danger, OnlyNotice bool
}

// servePress presses a button. When that has a confirmation, it is asked for
// first.
func (s *Server) servePress(w http.ResponseWriter, r *http.Request) {
	v := s.view(r.PostFormValue("channel"), r.PostFormValue("as"))
	b := place{version: r.PostFormValue("version"), block: r.PostFormValue("block"), action: r.PostFormValue("action")}
	i, c, err := s.press(r.PostFormValue("channel"), r.PostFormValue("ts"), b, r.PostFormValue("as"))
	if err != nil {
		notice(w, v, err)
		return
	}
	if c != nil && r.PostFormValue("confirmed") != "yes" {
		q := question{view: v, TS: i.TS, Version: b.version, Block: b.block, Action: b.action,
			Heading: or(c.Title.Text, "Are you sure?"), Words: c.Text.Text,
			Danger: c.Style == "danger" || i.Action.Style == "danger"}
		q.Confirm, q.Deny = or(c.Confirm.Text, "Yes"), or(c.Deny.Text, "Cancel")
		render(w, http.StatusOK, "ask.html", q)
		return
	}
	if _, err := s.Deliver(r.Context(), i); errors.Is(err, ErrBusy) {
		notice(w, v, err)
		return
	}
	http.Redirect(w, r, "/channel?"+string(v.Query()), http.StatusSeeOther) // what failed stands in the channel
}

// serveCommand types a command.
func (s *Server) serveCommand(w http.ResponseWriter, r *http.Request) {
	v := s.view(r.PostFormValue("channel"), r.PostFormValue("as"))
	_, err := s.Command(r.Context(), r.PostFormValue("channel"), r.PostFormValue("as"), r.PostFormValue("line"))
	for _, known := range []error{ErrNoCommand, ErrNoUser, ErrNoChannel, ErrBusy} {
		if errors.Is(err, known) {
			notice(w, v, err)
			return
		}
	}
	http.Redirect(w, r, "/?"+string(v.Query()), http.StatusSeeOther)
}

// notice says what cannot be. Of what went wrong with the app the channel tells.
func notice(w http.ResponseWriter, v view, err error) {
	render(w, http.StatusConflict, "ask.html", question{view: v, Heading: "That did not work", Words: err.Error(), OnlyNotice: true})
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
