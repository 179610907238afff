package config

import (
	"slices"
	"strings"
	"testing"
)

func TestHostNames(t *testing.T) {
	known := (&Config{
		Listen: "gate.internal:8484", Admin: Admin{Listen: ":8485"}, Hosts: []string{"Models.Example.com"},
	}).HostNames()
	for _, want := range []string{"localhost", "gate.internal", "models.example.com"} {
		if !slices.Contains(known, want) {
			t.Errorf("%s is not in %q", want, known)
		}
	}
	if slices.Contains(known, "") {
		t.Errorf("an empty name is in %q", known)
	}
}

// A reload never puts built-in settings in place of those of the running file.
func TestReloadRefusesAFileThatHasLostSettings(t *testing.T) {
	const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const pool = "pools:\n  - name: a\n    upstream: http://127.0.0.1/v1\n    models: [x]\n    workers: 7\n" +
		"    limits: {body: 1MiB}\n"
	const clients = "clients:\n  - {name: c, key_sha256: " + digest + ", priority: batch}\n"
	const other = "  - name: b\n    upstream: http://127.0.0.1/v1\n    models: [z]\n"
	const running = "drain: 5s\nhosts: [h]\n" + pool + other + clients + "rollback: {auto: false}\n"
	for name, c := range map[string]struct{ file, wants string }{
		"the same":                 {running, ""},
		"changed values":           {strings.ReplaceAll(running, "7", "8"), ""},
		"another order":            {clients + pool + other + "rollback: {auto: false}\nhosts: [h]\ndrain: 5s\n", ""},
		"a pool and a client less": {"drain: 5s\nhosts: [h]\n" + pool + "clients: []\nrollback: {auto: false}\n", ""},
		"a pool renamed":           {strings.Replace(running, "name: a", "name: new", 1), ""},
		"a default written out":    {strings.Replace(running, "drain: 5s", "drain: 30s", 1), ""},
		"empty":                    {"", "pools"},
		"comments":                 {"# nothing\n", "pools"},
		"no pools":                 {strings.Replace(running, pool+other, "", 1), "pools"},
		"no clients":               {strings.Replace(running, clients, "", 1), "write clients: [] to let everyone in"},
		"cut within the pools":     {running[:strings.Index(running, "clients")], "write clients: [] to let everyone in"},
		"cut within a pool":        {"drain: 5s\nhosts: [h]\npools:\n  - name: a\n    upstream: http://127.0.0.1/v1\n", "pools[0].models"},
		"no limits":                {strings.Replace(running, "    limits: {body: 1MiB}\n", "", 1), "pools[0].limits"},
		"no hosts":                 {strings.Replace(running, "hosts: [h]\n", "", 1), "hosts"},
		"no workers":               {strings.Replace(running, "    workers: 7\n", "", 1), "write 4 if"},
		"no priority":              {strings.Replace(running, ", priority: batch", "", 1), "clients[0].priority"},
		"an empty section":         {strings.Replace(running, "rollback: {auto: false}", "rollback: {}", 1), "rollback.auto"},
		"a pool moved and cut": {"drain: 5s\nhosts: [h]\npools:\n" + other +
			strings.Replace(strings.TrimPrefix(pool, "pools:\n"), "    models: [x]\n", "", 1) + clients +
			"rollback: {auto: false}\n", "pools[1].models"},
	} {
		before, err := Parse("f.yaml", []byte(running), nil)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Parse("f.yaml", []byte(c.file), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch err := before.CheckReload(after); {
		case c.wants == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.wants != "" && (err == nil || !strings.Contains(err.Error(), c.wants)):
			t.Errorf("%s: %v, want an error with %q", name, err, c.wants)
		}
	}
}

// A file without pools is served with the built-in one from the start, and may go on so.
func TestReloadOfAFileThatNeverSetPools(t *testing.T) {
	before, after := must(Parse("f.yaml", nil, nil))(t), must(Parse("f.yaml", []byte("drain: 5s\n"), nil))(t)
	if err := before.CheckReload(after); err != nil {
		t.Error(err)
	}
	environment := must(FromEnvironment(nil))(t)
	if err := environment.CheckReload(must(FromEnvironment(nil))(t)); err != nil {
		t.Error(err)
	}
}

func must(c *Config, err error) func(*testing.T) *Config {
	return func(t *testing.T) *Config {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}
