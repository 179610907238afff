package slack

import (
	"fmt"
	"strings"
	"testing"

	"headgate/internal/fakeslack"
)

// results writes checks as names, with ! before those that failed.
func results(t *testing.T, cs []Check) string {
	t.Helper()
	var out []string
	for _, c := range cs {
		wantNoSecret(t, c.Name, fmt.Sprintf("%+v", c))
		name := c.Name
		if !c.OK {
			name = "!" + name
			if c.Detail == "" {
				t.Errorf("%s failed and does not say why", c.Name)
			}
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

func TestVerify(t *testing.T) {
	const scopes = "scope chat:write, scope channels:history, scope channels:read"
	const channel = "page: channel, page: post, page: edit, page: look up, page: delete"
	tests := []struct {
		name  string
		o     fakeslack.Options
		set   fakeslack.Channel
		fault *fakeslack.Fault
		want  string
	}{
		{name: "all is well", want: "token, " + scopes + ", " + channel},
		{name: "a revoked token", fault: &fakeslack.Fault{Kind: fakeslack.ErrorResponse, Error: "token_revoked"}, want: "!token"},
		{name: "an answer that is none", fault: &fakeslack.Fault{Kind: fakeslack.EmptyResponse}, want: "!token"},
		{name: "no answer", fault: &fakeslack.Fault{Kind: fakeslack.DropBefore}, want: "!token"},
		{
			name: "few scopes", o: fakeslack.Options{Scopes: []string{"chat:write"}},
			want: "token, scope chat:write, !scope channels:history, !scope channels:read, !page: channel, page: post, page: edit, !page: look up, page: delete",
		},
		{
			name: "not a member", set: fakeslack.Channel{ID: "C1", Name: "ops"},
			want: "token, " + scopes + ", !page: channel, !page: post",
		},
		{
			name: "archived", set: fakeslack.Channel{ID: "C1", Name: "ops", Member: true, Archived: true},
			want: "token, " + scopes + ", !page: channel, !page: post",
		},
		{
			name: "edits are refused", fault: &fakeslack.Fault{Method: "chat.update", Kind: fakeslack.ErrorResponse, Error: "cant_update_message"},
			want: "token, " + scopes + ", page: channel, page: post, !page: edit, page: look up, page: delete",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newFixture(t, tt.o)
			if tt.set.ID != "" {
				w.slack.SetChannel(tt.set)
			}
			if tt.fault != nil {
				w.slack.Inject(*tt.fault)
			}
			if got := results(t, w.bot.Verify(t.Context())); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
			if n := len(w.slack.Messages("C1")); n != 0 {
				t.Errorf("%d messages are left behind", n)
			}
		})
	}
}

func TestVerifyInteractions(t *testing.T) {
	for name, tt := range map[string]struct {
		o      fakeslack.Options
		token  string
		fault  *fakeslack.Fault
		scopes string
		want   string
	}{
		"all is well":       {token: appToken, scopes: "scope commands", want: "buttons: socket"},
		"no commands":       {o: fakeslack.Options{Scopes: []string{"chat:write", "channels:read"}}, token: appToken, scopes: "!scope commands", want: "buttons: socket"},
		"another app token": {o: fakeslack.Options{AppToken: "xapp-other"}, token: appToken, scopes: "scope commands", want: "!buttons: socket"},
		"a bot token":       {token: token, scopes: "scope commands", want: "!buttons: socket"},
		"no answer":         {token: appToken, fault: &fakeslack.Fault{Method: "apps.connections.open", Kind: fakeslack.EmptyResponse}, scopes: "scope commands", want: "!buttons: socket"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, tt.o)
			if tt.fault != nil {
				w.slack.Inject(*tt.fault)
			}
			w.bot.renderer.withButtons = true
			if got := results(t, w.bot.Verify(t.Context())); !strings.Contains(got, ", "+tt.scopes+", ") {
				t.Errorf("%s, want %s", got, tt.scopes)
			}
			c := verifySocket(t.Context(), tt.token, w.srv.URL+"/api/")
			if got := results(t, []Check{c}); got != tt.want || !c.OK && c.Hint == "" {
				t.Errorf("%+v, want %s", c, tt.want)
			}
			if strings.Contains(fmt.Sprint(c), appToken) {
				t.Errorf("it shows the token: %+v", c)
			}
		})
	}
}
