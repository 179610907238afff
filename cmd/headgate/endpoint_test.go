package main

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
		flags    endpointFlags
		env      map[string]string
		settings string
		want     endpoint // token and closed are compared by hand
		token    string
		closed   string
		warning  string
	}{
		{name: "defaults", want: endpoint{url: defaultAdmin, dataDir: "./data", local: true}, token: "of ./data"},
		{name: "flags win", flags: endpointFlags{admin: "http://127.0.0.1:1", dataDir: "x"}, settings: settingsFile,
			env:  map[string]string{"HEADGATE_ADMIN": "http://127.0.0.1:2", "HEADGATE_TOKEN": "from-the-environment"},
			want: endpoint{url: "http://127.0.0.1:1", dataDir: "x", local: true}, token: "from-the-environment"},
		{name: "environment", env: map[string]string{"HEADGATE_ADMIN": "https://gate.example", "HEADGATE_TOKEN": "t"},
			want: endpoint{url: "https://gate.example", dataDir: "./data"}, token: "t"},
		{name: "elsewhere without a token", flags: endpointFlags{admin: "https://gate.example"},
			want: endpoint{url: "https://gate.example", dataDir: "./data"}, closed: "there is no token for https://gate.example"},
		{name: "elsewhere with a directory", flags: endpointFlags{admin: "https://gate.example", dataDir: "x"},
			want: endpoint{url: "https://gate.example", dataDir: "x", local: true}, token: "of x"},
		{name: "settings", settings: settingsFile,
			want: endpoint{url: "http://127.0.0.1:9001", dataDir: "/var/lib/headgate", local: true}, token: "from-the-settings-123"},
		{name: "settings of an address that is not ours", settings: strings.Replace(settingsFile, "0.0.0.0", "gate.example", 1),
			want: endpoint{url: "http://gate.example:9001", dataDir: "/var/lib/headgate", local: true}, closed: "not sent over plain http"},
		{name: "settings that are not right", settings: settingsFile + "wrong: 1\n",
			want: endpoint{url: "http://127.0.0.1:9001", dataDir: "/var/lib/headgate", local: true}, token: "of /var/lib/headgate", warning: "the settings are not right"},
		{name: "settings that want a variable", settings: strings.Replace(settingsFile, "from-the-settings-123", `"${UNSET}"`, 1),
			want: endpoint{url: "http://127.0.0.1:9001", dataDir: "/var/lib/headgate", local: true}, token: "of /var/lib/headgate", warning: "UNSET"},
		{name: "settings that are no YAML", settings: "{{{",
			want: endpoint{url: defaultAdmin, dataDir: "./data", local: true}, token: "of ./data", warning: "the settings are not right"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.settings != "" {
				tt.flags.config = filepath.Join(t.TempDir(), "headgate.yaml")
				if err := os.WriteFile(tt.flags.config, []byte(tt.settings), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h := environment{
				lookupEnv: func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok },
				token:     func(dir string) (config.Secret, error) { return config.NewSecret("of " + dir), nil },
			}
			var messages bytes.Buffer
			got, err := tt.flags.resolve(h, &messages)
			if err != nil {
				t.Fatal(err)
			}
			if got.url != tt.want.url || got.dataDir != tt.want.dataDir || got.local != tt.want.local || got.token.Reveal() != tt.token {
				t.Errorf("got %+v with token %q, want %+v with %q", got, got.token.Reveal(), tt.want, tt.token)
			}
			if (got.unusable == nil) != (tt.closed == "") || got.unusable != nil && !strings.Contains(got.unusable.Error(), tt.closed) {
				t.Errorf("closed %v, want %q", got.unusable, tt.closed)
			}
			if (messages.Len() == 0) != (tt.warning == "") || !strings.Contains(messages.String(), tt.warning) {
				t.Errorf("warning %q, want %q", messages.String(), tt.warning)
			}
		})
	}
}

func TestSettingsFileIsMissing(t *testing.T) {
	g := newTestEnv(t)
	g.serve()
	r := g.run("status", "--config", filepath.Join(t.TempDir(), "none.yaml"))
	if r.code != 0 || !strings.Contains(r.err, "none.yaml") || !strings.Contains(r.out, "enforce") {
		t.Errorf("%+v, want a warning and the status", r)
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
		if got := adminURL(listen); got != want {
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
	if !strings.Contains(whoami(), "@") {
		t.Errorf("I am %q", whoami())
	}
}
