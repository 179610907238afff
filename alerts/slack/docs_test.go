package slack

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// manifest is what matters of an app's manifest.
type manifest struct {
	Features struct {
		Commands []struct{ Command, URL string } `yaml:"slash_commands"`
	} `yaml:"features"`
	OAuth struct {
		Scopes struct{ Bot []string }
	} `yaml:"oauth_config"`
	Settings struct {
		Interactivity struct {
			Enabled bool   `yaml:"is_enabled"`
			URL     string `yaml:"request_url"`
		}
		Socket bool `yaml:"socket_mode_enabled"`
	}
}

// An app that is made with the page's manifests can do what is asked of it.
func TestManifestsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/slack.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"socket", "requests"} {
		_, rest, found := strings.Cut(string(page), "<!-- manifest "+way+" -->\n```yaml\n")
		text, _, ended := strings.Cut(rest, "```\n")
		var m manifest
		if err := yaml.Unmarshal([]byte(text), &m); err != nil || !found || !ended {
			t.Fatalf("%s: %v", way, err)
		}
		for _, scope := range []string{"chat:write", "channels:history", "groups:history", "channels:read", "groups:read", "commands"} {
			if !slices.Contains(m.OAuth.Scopes.Bot, scope) {
				t.Errorf("%s: the scope %s is missing", way, scope)
			}
		}
		if !m.Settings.Interactivity.Enabled || m.Settings.Socket != (way == "socket") || len(m.Features.Commands) != 1 || m.Features.Commands[0].Command != "/headgate" {
			t.Errorf("%s: %+v", way, m)
		}
		press, command := m.Settings.Interactivity.URL, m.Features.Commands[0].URL
		if way == "requests" && (!strings.HasSuffix(press, InteractivityPath) || !strings.HasSuffix(command, CommandsPath)) || way == "socket" && press+command != "" {
			t.Errorf("%s: %s, %s", way, press, command)
		}
	}
	for _, a := range Actions() {
		if a.NeedsPermission() && !strings.Contains(string(page), "`slack.allow."+string(a)+"`") {
			t.Errorf("the page does not say who may %s", a)
		}
	}
}
