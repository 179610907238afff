package config

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/internal/strictyaml"
)

// written returns what Write gives.
func written(t *testing.T, c *Config) string {
	t.Helper()
	var out bytes.Buffer
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// withoutSecrets replaces secrets as Write does.
func withoutSecrets(c *Config) *Config {
	copied := *c
	for _, secret := range []*Secret{
		&copied.Admin.Token, &copied.Slack.BotToken, &copied.Slack.Webhook, &copied.Slack.AppToken,
		&copied.Slack.SigningSecret, &copied.Heartbeat.URL,
	} {
		*secret = NewSecret(secret.String())
	}
	copied.Pools = nil
	for _, p := range c.Pools {
		p.UpstreamKey = NewSecret(p.UpstreamKey.String())
		copied.Pools = append(copied.Pools, p)
	}
	return &copied
}

func TestWriteSpellsTheDefaultsOut(t *testing.T) {
	golden(t, "testdata/default.yaml", written(t, Default()))
}

func TestWriteNamesEverySetting(t *testing.T) {
	text := written(t, fullConfig())
	for _, p := range strictyaml.SettingPaths(reflect.TypeFor[Config](), "") {
		if key := p[strings.LastIndex(p, ".")+1:]; !strings.Contains(text, key+":") {
			t.Errorf("%s is not written", p)
		}
	}
}

func TestWhatIsWrittenLoadsAgain(t *testing.T) {
	odd := Default()
	odd.DataDir = "$HOME/${x}: #'\" 1e3"
	odd.Pools[0].Models = []string{"true", "1.0", "null", "~", "[a]", "{", "*", "&a", "-", "=", "<<", "0x1f", "$$", "é"}
	odd.Pools[0].Name = "12"
	for name, c := range map[string]*Config{"default": Default(), "full": fullConfig(), "odd": odd} {
		t.Run(name, func(t *testing.T) {
			text := written(t, c)
			again, err := Parse("again.yaml", []byte(text), nil)
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			if diff := cmp.Diff(withoutSecrets(c), again, settings); diff != "" {
				t.Error(diff)
			}
			if second := written(t, again); second != text {
				t.Errorf("written twice:\n%s", cmp.Diff(text, second))
			}
		})
	}
}

func TestWriteRedacts(t *testing.T) {
	c := fullConfig()
	secrets := []*Secret{&c.Admin.Token, &c.Pools[0].UpstreamKey, &c.Slack.BotToken, &c.Slack.Webhook, &c.Slack.AppToken,
		&c.Slack.SigningSecret, &c.Heartbeat.URL}
	for _, secret := range secrets {
		*secret = NewSecret(secretMarker)
	}
	text := written(t, c)
	if strings.Contains(text, secretMarker) || strings.Count(text, `'`+redacted+`'`)+strings.Count(text,
		`"`+redacted+`"`) != len(secrets) {
		t.Error(text)
	}
}

// limitedWriter takes so many bytes and no more.
type limitedWriter struct{ left int }

func (f *limitedWriter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

var errFull = errors.New("no room")

func TestWriteReportsAFullDisk(t *testing.T) {
	if err := Default().Write(&limitedWriter{100}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
