package config

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// parseDrill is a definition that reads like text.
func parseDrill(t *testing.T, text string) Drill {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return Drill{Node: doc.Content[0]}
}

func TestDrillsAreKeptVerbatim(t *testing.T) {
	const text = "listen: 127.0.0.1:1\ndrills:\n  - file: a.yaml\n  - id: weekly\n    owner: costs 5$\n    expect: [late_share <= 5%]\nallow_live: true\n"
	c, err := Parse("dir/f.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Drills) != 2 || !c.AllowLive {
		t.Fatalf("%d drills, live %v", len(c.Drills), c.AllowLive)
	}
	d := c.Drills[1]
	if d.File != "dir/f.yaml" || d.Path != "drills[1]" || d.Node.Line != 4 {
		t.Errorf("%s %s in line %d", d.File, d.Path, d.Node.Line)
	}
	if !d.Equal(parseDrill(t, "id: weekly\nowner: costs 5$\nexpect: [late_share <= 5%]")) || d.Equal(c.Drills[0]) {
		t.Error("equality is wrong")
	}
	var out bytes.Buffer
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	again, err := Parse("dir/f.yaml", out.Bytes(), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	for i := range c.Drills {
		if !again.Drills[i].Equal(c.Drills[i]) {
			t.Errorf("drill %d is written as another", i)
		}
	}
}

func TestInvalidDrills(t *testing.T) {
	for text, want := range map[string]string{
		"drills: burst":     "f.yaml:1:1: drills: must be a list",
		"drills: [burst]":   "f.yaml:1:10: drills[0]: must be a mapping of settings, is text",
		"drills: [&a {}]":   "YAML anchors are not supported",
		"drills:\n  - ":     "has no value",
		"allow_live: maybe": "must be true or false",
	} {
		if _, err := Parse("f.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
