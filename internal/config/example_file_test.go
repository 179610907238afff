package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
)

const exampleFile = "../../docs/headgate.example.yaml"

func example(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheExampleShowsTheDefaults(t *testing.T) {
	c, err := Load(exampleFile, env())
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	if diff := cmp.Diff(want, c, settings); diff != "" {
		t.Errorf("(-default +example)\n%s", diff)
	}
}

var (
	switchedOff = regexp.MustCompile(`(?m)^( *)#(\S)`)
	overridden  = regexp.MustCompile(`(?m)^ *(hosts: \[\]|drills: \[\]|token: ""|upstream_key: ""|bot_token: ""|webhook: ""|app_token: ""|signing_secret: ""|listen: ""|rollback: \[\]|page: ""|url: ""|endpoints: \[\]|clients: \[\])\n`)
)

// uncommented is the example with all that is commented out in force.
func uncommented(t *testing.T) string {
	return switchedOff.ReplaceAllString(overridden.ReplaceAllString(example(t), ""), "$1$2")
}

func TestTheExampleLoadsWithEverythingSwitchedOn(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/admin-token.txt", "token\n")
	digest := strings.Repeat("a1", 32)
	c, err := Parse(dir+"/f.yaml", []byte(uncommented(t)), env("MC_API_KEY", "k", "TEAM_SEARCH_KEY_SHA256", digest,
		"SLACK_BOT_TOKEN", "bot", "SLACK_WEBHOOK", "https://hooks.example.com/x",
		"SLACK_APP_TOKEN", "xapp-1-a", "SLACK_SIGNING_SECRET", "sign", "HEARTBEAT_URL", "https://beat.example.com/y"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Hosts, want.Admin.Token = []string{"gate.example.com"}, NewSecret("token")
	want.Pools[0].UpstreamKey, want.Pools[0].Endpoints = NewSecret("k"), []Endpoint{{"/v1/rerank", true, false}, {"POST /tokenize", false, false}}
	want.Clients = []Client{{"team-search", digest, "interactive"}}
	want.Slack.BotToken, want.Slack.Webhook = NewSecret("bot"), NewSecret("https://hooks.example.com/x")
	want.Slack.AppToken, want.Slack.SigningSecret, want.Slack.Listen = NewSecret("xapp-1-a"), NewSecret("sign"),
		"127.0.0.1:8486"
	want.Slack.Allow.Rollback = []string{"U0123456789", "U0123456788"}
	want.Slack.Channels.Page, want.Slack.Mention.Page = "C0123456789", "<!here>"
	want.Heartbeat.URL = NewSecret("https://beat.example.com/y")
	want.Drills = []Drill{parseDrill(t, "file: drills/weekly.yaml")}
	if diff := cmp.Diff(want, c, settings); diff != "" {
		t.Error(diff)
	}
}

func TestTheExampleHasEverySettingWithAComment(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(uncommented(t)), &doc); err != nil {
		t.Fatal(err)
	}
	commented := map[string]bool{}
	comments(doc.Content[0], "", commented)
	for _, p := range strictyaml.SettingPaths(reflect.TypeFor[Config](), "") {
		if has, there := commented[p]; !there || !has {
			t.Errorf("%s: in the example: %t, with a comment: %t", p, there, has)
		}
	}
}

// comments notes for every key below n whether a comment stands above it.
func comments(n *yaml.Node, path string, found map[string]bool) {
	for i, item := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			if item.Kind == yaml.MappingNode && len(item.Content) > 0 {
				item.Content[0].HeadComment += item.HeadComment
			}
			comments(item, path+"[]", found)
		case i%2 == 1:
			key := n.Content[i-1]
			p := strictyaml.Join(path, key.Value)
			found[p] = len(key.HeadComment) > 10
			comments(item, p, found)
		}
	}
}

func TestTheExampleHoldsNoSecret(t *testing.T) {
	for line := range strings.Lines(example(t)) {
		if key, value, _ := strings.Cut(strings.TrimLeft(line, " #-"),
			": "); slices.Contains([]string{"upstream_key", "token", "key_sha256", "bot_token", "webhook", "app_token",
			"signing_secret", "url"}, key) {
			if value = strings.TrimSpace(value); value != `""` && !strings.HasPrefix(value, "${") {
				t.Errorf("a literal secret would be copied: %s", line)
			}
		}
	}
}
