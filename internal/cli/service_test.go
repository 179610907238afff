package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/internal/config"
)

const settingsFile = `
admin: {listen: "0.0.0.0:9001", token: from-the-settings-123}
data_dir: /var/lib/headgate
pools: [{name: a, upstream: "http://127.0.0.1:9/v1"}]
`

func TestEndpoint(t *testing.T) {
	tests := []struct {
		name     string
		flags    Endpoint
		env      map[string]string
		settings string
		want     target // token and unusable are compared by hand
		token    string
		unusable string
		warning  string
	}{
		{name: "defaults", want: target{url: defaultAdmin, dataDir: "./data", local: true}, token: "of ./data"},
		{name: "flags win", flags: Endpoint{Admin: "http://127.0.0.1:1", DataDir: "x"}, settings: settingsFile,
			env:  map[string]string{"HEADGATE_ADMIN": "http://127.0.0.1:2", "HEADGATE_TOKEN": "from-the-environment"},
			want: target{url: "http://127.0.0.1:1", dataDir: "x", local: true}, token: "from-the-environment"},
		{name: "environment", env: map[string]string{"HEADGATE_ADMIN": "https://gate.example", "HEADGATE_TOKEN": "t"},
			want: target{url: "https://gate.example", dataDir: "./data"}, token: "t"},
		{name: "elsewhere without a token", flags: Endpoint{Admin: "https://gate.example"},
			want:     target{url: "https://gate.example", dataDir: "./data"},
			unusable: "there is no token for https://gate.example"},
		{name: "elsewhere with a directory", flags: Endpoint{Admin: "https://gate.example", DataDir: "x"},
			want: target{url: "https://gate.example", dataDir: "x", local: true}, token: "of x"},
		{name: "settings", settings: settingsFile,
			want:  target{url: "http://127.0.0.1:9001", dataDir: "/var/lib/headgate", local: true},
			token: "from-the-settings-123"},
		{name: "settings of an address that is not ours", settings: strings.Replace(settingsFile, "0.0.0.0", "gate.example",
			1),
			want:     target{url: "http://gate.example:9001", dataDir: "/var/lib/headgate", local: true},
			unusable: "not sent over plain http"},
		{name: "settings that are not right", settings: settingsFile + "wrong: 1\n",
			want: target{url: "http://127.0.0.1:9001", dataDir: "/var/lib/headgate", local: true}, token: "of /var/lib/headgate",
			warning: "invalid configuration"},
		{name: "settings that want a variable", settings: strings.Replace(settingsFile, "from-the-settings-123", `"${UNSET}"`,
			1),
			want: target{url: "http://127.0.0.1:9001", dataDir: "/var/lib/headgate", local: true}, token: "of /var/lib/headgate",
			warning: "UNSET"},
		{name: "settings that are no YAML", settings: "{{{",
			want: target{url: defaultAdmin, dataDir: "./data", local: true}, token: "of ./data",
			warning: "invalid configuration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.settings != "" {
				tt.flags.Config = filepath.Join(t.TempDir(), "headgate.yaml")
				if err := os.WriteFile(tt.flags.Config, []byte(tt.settings), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var messages bytes.Buffer
			s := Service{Endpoint: tt.flags, Err: &messages, Env: Env{
				LookupEnv: func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok },
				Token:     func(dir string) (config.Secret, error) { return config.NewSecret("of " + dir), nil },
			}}
			got, err := s.target()
			if err != nil {
				t.Fatal(err)
			}
			if got.url != tt.want.url || got.dataDir != tt.want.dataDir || got.local != tt.want.local ||
				got.token.Reveal() != tt.token {
				t.Errorf("got %+v with token %q, want %+v with %q", got, got.token.Reveal(), tt.want, tt.token)
			}
			if (got.unusable == nil) != (tt.unusable == "") || got.unusable != nil &&
				!strings.Contains(got.unusable.Error(), tt.unusable) {
				t.Errorf("unusable %v, want %q", got.unusable, tt.unusable)
			}
			if (messages.Len() == 0) != (tt.warning == "") || !strings.Contains(messages.String(), tt.warning) {
				t.Errorf("warning %q, want %q", messages.String(), tt.warning)
			}
		})
	}
}

func TestAdminURL(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8485": "http://127.0.0.1:8485",
		":8485":          "http://127.0.0.1:8485",
		"0.0.0.0:1":      "http://127.0.0.1:1",
		"[::]:1":         "http://[::1]:1",
		"[::1]:1":        "http://[::1]:1",
		"host:1":         "http://host:1",
		"nonsense":       "http://nonsense",
	} {
		if got := AdminURL(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}

func TestActorName(t *testing.T) {
	for name, want := range map[string]string{
		"ana@host": "ana@host", "anä b\n@host": "an__b_@host", strings.Repeat("x", 200): strings.Repeat("x", 100),
	} {
		if got := actorName(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
	if !strings.Contains(WhoAmI(), "@") {
		t.Errorf("I am %q", WhoAmI())
	}
}
