package fakeslack

import (
	"errors"
	"net/http"
)

// dialog is a confirmation, or a notice that something cannot be.
type dialog struct {
	view
	TS, Version        string
	Block, Action      string
	Heading, Text      string
	Confirm, Deny      string
	Danger, NoticeOnly bool
}

// servePress presses a button. When that has a confirmation, it is asked for
// first.
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
			Heading: orDefault(c.Title.Text, "Are you sure?"), Text: c.Text.Text,
			Danger: c.Style == "danger" || i.Action.Style == "danger"}
		q.Confirm, q.Deny = orDefault(c.Confirm.Text, "Yes"), orDefault(c.Deny.Text, "Cancel")
		render(w, http.StatusOK, "ask.html", q)
		return
	}
	if _, err := s.Deliver(r.Context(), i); errors.Is(err, ErrBusy) {
		renderNotice(w, v, err)
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
			renderNotice(w, v, err)
			return
		}
	}
	http.Redirect(w, r, "/?"+string(v.Query()), http.StatusSeeOther)
}

// renderNotice says what cannot be. Of what went wrong with the app the channel tells.
func renderNotice(w http.ResponseWriter, v view, err error) {
	render(w, http.StatusConflict, "ask.html", dialog{view: v, Heading: "That did not work", Text: err.Error(), NoticeOnly: true})
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
