package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"headgate/internal/strictyaml"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// settings compares what is set, not where it was written.
var settings = cmpopts.IgnoreUnexported(Config{})

// env makes a lookup out of NAME, VALUE pairs.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestDefaultsAreFiniteAndValid(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("warnings: %v", w)
	}
	p := c.Pools[0]
	for name, value := range map[string]int64{
		"drain":              int64(c.Drain),
		"workers":            int64(p.Workers),
		"turnaround":         int64(p.SLO.Turnaround),
		"max_queue_age":      int64(p.Admission.MaxQueueAge),
		"depth_multiple":     int64(p.Admission.DepthMultiple),
		"upstream_connect":   int64(p.Timeouts.UpstreamConnect),
		"upstream_idle":      int64(p.Timeouts.UpstreamIdle),
		"upstream_keepalive": int64(p.Timeouts.UpstreamKeepalive),
		"upstream_max_age":   int64(p.Timeouts.UpstreamMaxAge),
		"idle":               int64(c.ClientTimeouts.Idle),
		"header":             int64(c.ClientTimeouts.Header),
		"body":               int64(p.Limits.Body),
		"buffered":           int64(p.Limits.Buffered),
		"passthrough_queue":  int64(p.Limits.PassthroughQueue),
	} {
		if value <= 0 {
			t.Errorf("%s is %d by default, so it bounds nothing", name, value)
		}
	}
}

func TestDefaultIsMadeAnewEachTime(t *testing.T) {
	a := Default()
	a.Pools[0].Models[0], a.Pools[0].Workers = "other", 9
	if diff := cmp.Diff(DefaultPool(), Default().Pools[0]); diff != "" {
		t.Errorf("a change of one Default shows in the next:\n%s", diff)
	}
}

func TestFilesThatSetNothingGiveTheDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"comment only":   "# nothing\n",
		"blank lines":    "\n\n",
		"start only":     "---\n# nothing\n",
		"byte order":     "\ufeff# nothing\n",
		"empty mapping":  "{}\n",
		"empty sections": "admin: {}\nlog: {}\nhosts: []\nclients: []\n",
		"no last line":   "log: {}",
		"windows lines":  "log: {}\r\nhosts: []\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("f.yaml", []byte(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Default(), c, settings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const full = `
listen: "[::1]:9000"
hosts: [gate.example.com, 10.0.0.1]
admin: {listen: "localhost:9001", token: abc, external_url: https://gate.example.com}
data_dir: /var/lib/headgate
drain: 0s
client_timeouts: {idle: 2m, header: 3s}
pools:
  - name: a-1
    upstream: https://models.example.com/v1/
    upstream_key: k
    upstream_key_header: api-key
    upstream_tls: {ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem}
    models: [gpt-4, "llama-*"]
    workers: 100000
    mode: observe
    slo: {turnaround: 1m30s, objective: 0.5, window: 7d}
    admission: {policy: none, max_queue_age: 1s500ms, depth_multiple: 1}
    timeouts: {upstream_connect: 1ms, upstream_idle: 1d1h, upstream_keepalive: 0s, upstream_max_age: 2m}
    limits: {body: 1kB, buffered: 1KiB, passthrough_queue: 1}
    stream_keepalive: 1s
    endpoints: [/v1/rerank, /v1/audio/speech]
  - {name: b, upstream: "http://127.0.0.1:8080/v1", models: [other]}
clients:
  - {name: alice, key_sha256: E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855, priority: batch}
  - {name: bob, key_sha256: '0000000000000000000000000000000000000000000000000000000000000000'}
slack:
  bot_token: bot
  api_url: http://127.0.0.1:9/api/
  webhook: https://hooks.example.com/x
  app_token: xapp-1-A1-2-c
  signing_secret: sign
  listen: "127.0.0.1:9002"
  channels: {page: C1, warn: C2, drills: C4, fallback: C3}
  mention: {page: <!here>}
  allow: {rollback: [U01, W02], restore: [U03], drill: [U04], ack: [U05], silence: [U06]}
rules: {file: rules.yaml, interval: 2s}
rollback: {auto: false, max_per_day: 5, cooldown: 1h, human_latch: 90m}
heartbeat: {url: "https://beat.example.com/y", interval: 10s}
retention: {samples: 4d, history: 1d}
log: {level: debug, format: json}
`

func fullConfig() *Config {
	second := DefaultPool()
	second.Name, second.Models = "b", []string{"other"}
	return &Config{
		Listen: "[::1]:9000", Hosts: []string{"gate.example.com", "10.0.0.1"},
		Admin:   Admin{Listen: "localhost:9001", Token: NewSecret("abc"), ExternalURL: "https://gate.example.com"},
		DataDir: "/var/lib/headgate", ClientTimeouts: ClientTimeouts{2 * time.Minute, 3 * time.Second},
		Pools: []Pool{{
			Name: "a-1", Upstream: "https://models.example.com/v1", UpstreamKey: NewSecret("k"),
			UpstreamKeyHeader: "api-key", UpstreamTLS: UpstreamTLS{"ca.pem", "cert.pem", "key.pem"},
			Models: []string{"gpt-4", "llama-*"}, Workers: 100000, Mode: "observe",
			SLO:             SLO{90 * time.Second, 0.5, 7 * 24 * time.Hour},
			Admission:       Admission{"none", 1500 * time.Millisecond, 1},
			Timeouts:        Timeouts{time.Millisecond, 25 * time.Hour, 0, 2 * time.Minute},
			Limits:          Limits{1000, 1024, 1},
			StreamKeepalive: time.Second,
			Endpoints:       []Endpoint{{"/v1/rerank", true, false}, {"/v1/audio/speech", true, false}},
		}, second},
		Clients: []Client{
			{"alice", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "batch"},
			{"bob", strings.Repeat("0", 64), "interactive"},
		},
		Slack: Slack{
			NewSecret("bot"), "http://127.0.0.1:9/api/", NewSecret("https://hooks.example.com/x"),
			NewSecret("xapp-1-A1-2-c"), NewSecret("sign"), "127.0.0.1:9002",
			Channels{Page: "C1", Warn: "C2", Drills: "C4", Fallback: "C3"}, Mention{"<!here>"},
			Allow{[]string{"U01", "W02"}, []string{"U03"}, []string{"U04"}, []string{"U05"}, []string{"U06"}},
		},
		Rules:     Rules{"rules.yaml", 2 * time.Second},
		Rollback:  Rollback{false, 5, time.Hour, 90 * time.Minute},
		Heartbeat: Heartbeat{NewSecret("https://beat.example.com/y"), 10 * time.Second},
		Retention: Retention{4 * 24 * time.Hour, 24 * time.Hour},
		Log:       Log{"debug", "json"},
	}
}

func TestEverySettingIsRead(t *testing.T) {
	c, err := Parse("f.yaml", []byte(full), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullConfig(), c, settings); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhatIsAllowed(t *testing.T) {
	const pool = "pools: [{name: a, upstream: 'https://m.example.com/v1', upstream_key: k}]\n"
	const clients = "clients: [{name: c, key_sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}]\n"
	for name, text := range map[string]string{
		"reachable, a key, clients":     "listen: :8484\n" + pool + clients,
		"reachable, no key, no clients": "listen: 0.0.0.0:8484\n",
		"localhost with a key":          "listen: localhost:8484\n" + pool,
		"another loopback with a key":   "listen: 127.8.9.1:8484\n" + pool,
		"mapped loopback with a key":    "listen: '[::ffff:127.0.0.1]:8484'\n" + pool,
		"both take a free port":         "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\n",
		"same port, other addresses":    "listen: 127.0.0.1:80\nadmin: {listen: 127.0.0.2:80}\n",
		"equal sizes":                   "pools: [{name: a, upstream: 'http://127.0.0.1/v1', limits: {body: 1MiB, buffered: 1MiB}}]\n",
		"number in quotes":              "pools: [{name: a, upstream: 'http://127.0.0.1/v1', workers: '4'}]\n",
		"upstream with another path":    "pools: [{name: a, upstream: 'https://m.example.com:8443/openai/deployments/x'}]\n",
		"upstream by address":           "pools: [{name: a, upstream: 'http://[fe80::1%25eth0]:8080/v1'}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("f.yaml", []byte(text), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReachableListenersWithAKeyAndNoClientsAreRefused(t *testing.T) {
	for _, listen := range []string{":8484", "0.0.0.0:8484", "[::]:8484", "192.168.1.2:8484", "gate.example.com:8484",
		"localhost.example.com:8484"} {
		text := "listen: '" + listen + "'\npools: [{name: a, upstream: 'https://m.example.com/v1', upstream_key: k}]\n"
		_, err := Parse("f.yaml", []byte(text), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:1:1: listen: ") ||
			!strings.Contains(err.Error(), "open relay") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestListenersThatCollideAreRefused(t *testing.T) {
	for _, pair := range [][2]string{
		{"127.0.0.1:80", "127.0.0.1:80"}, {":80", "127.0.0.1:80"}, {"127.0.0.1:80", "0.0.0.0:80"},
		{"[::]:80", "127.0.0.1:80"}, {"localhost:80", "127.0.0.1:80"}, {"[::1]:80", "LOCALHOST:80"},
		{"gate.example.com:80", "Gate.example.com:80"},
	} {
		_, err := Parse("f.yaml", []byte("listen: '"+pair[0]+"'\nadmin: {listen: '"+pair[1]+"'}\n"), nil)
		if err == nil || !strings.Contains(err.Error(), "admin.listen: must differ from listen") {
			t.Errorf("%v: %v", pair, err)
		}
	}
}

func TestLoadNamesTheFileAsItWasGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte("drain: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, nil)
	if want := path + `:1:1: drain: must have a unit, such as 30s or 5m, is "5"`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestLoadOfAFileThatIsNotThere(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Load(t.TempDir(), nil); err == nil {
		t.Error("read a directory")
	}
}

func TestLoadBoundsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.yaml")
	for size, ok := range map[int]bool{strictyaml.MaxFile: true, strictyaml.MaxFile + 1: false} {
		if err := os.WriteFile(path, []byte("#"+strings.Repeat("x", size-1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, nil); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestReferencesNeverChangeTheStructure(t *testing.T) {
	const inject = "x\ndrain: 1s\nadmin: {listen: 127.0.0.1:1}"
	c, err := Parse("f.yaml", []byte("admin: {token: \"${T}\"}\nlog: {level: \"${L}\"}\n"),
		env("T", "a,b}:#[*&!", "L", "warn"))
	if err != nil || c.Admin.Token.Reveal() != "a,b}:#[*&!" || c.Log.Level != "warn" {
		t.Errorf("got %+v, %v", c, err)
	}
	_, err = Parse("f.yaml", []byte("log: {level: '${L}'}\n"), env("L", inject))
	if err == nil || strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
	if _, err := Parse("f.yaml", []byte("${K}: 1s\n"), env("K", "drain")); err == nil {
		t.Error("a key was filled in")
	}
}

func TestReferencesServeEveryType(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "workers"), "7\n")
	text := `
drain: ${D}
pools:
  - name: a
    upstream: ${U}
    workers: ${file:workers}
    slo: {objective: "${O}"}
    limits: {body: "${B}MiB"}
`
	c, err := Parse(filepath.Join(dir, "f.yaml"), []byte(text),
		env("D", "7s", "U", "https://m.example.com/v1", "O", "0.5", "B", "3"))
	if err != nil {
		t.Fatal(err)
	}
	p := c.Pools[0]
	if c.Drain != 7*time.Second || p.Upstream != "https://m.example.com/v1" || p.Workers != 7 || p.SLO.Objective != 0.5 ||
		p.Limits.Body != 3*mib {
		t.Errorf("got %+v", c)
	}
}
