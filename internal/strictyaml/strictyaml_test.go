package strictyaml_test

import (
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
)

// pet is what the tests' files hold.
type pet struct {
	Name  string
	Tame  bool
	Names []string
}

func read(data string) (pet, error) {
	var p pet
	l := strictyaml.NewDecoder("pet.yaml")
	root := l.Document([]byte(data), "a pet")
	if root == nil {
		return p, l.Err()
	}
	one := func(n *yaml.Node, path string) {
		var name string
		l.Text(&name)(n, path)
		p.Names = append(p.Names, name)
	}
	tame := func(n *yaml.Node, path string) { l.Value(n, &p.Tame, path) }
	l.Mapping(root, "", strictyaml.Key("name", l.Text(&p.Name)), strictyaml.Key("tame", tame),
		strictyaml.Key("names", l.List(3, one)))
	if !l.IsSet("name") && l.OK() {
		l.Report("name", "must be given")
	}
	return p, l.Err()
}

func TestDecode(t *testing.T) {
	p, err := read("name: ' Rex '\ntame: true\nnames: [a, 'b']\n")
	if err != nil || p.Name != "Rex" || !p.Tame || len(p.Names) != 2 || p.Names[1] != "b" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestDecodeErrors(t *testing.T) {
	for data, want := range map[string]string{
		"":                        "pet.yaml: is empty: it must hold a pet",
		"name: [":                 "pet.yaml:2:1: is not valid YAML",
		"- a":                     "pet.yaml:1:1: must be a mapping of settings, is a list",
		"name: a\nnmae: b":        "pet.yaml:2:1: unknown key \"nmae\"; known here: name, tame, names",
		"name: a\nname: b":        "pet.yaml:2:1: name: is repeated: it is already set in line 1",
		"name: 7":                 "pet.yaml:1:1: name: must be text, is a number: put it in quotes",
		"name: {}":                "pet.yaml:1:1: name: must be a single value, is a mapping",
		"name:":                   "name: has no value",
		"name: &a b":              "YAML anchors are not supported",
		"name: &a b\nnames: [*a]": "names[0]: YAML aliases are not supported",
		"name: !!str b":           "YAML tags are not supported",
		"tame: maybe":             "tame: must be true or false, is \"maybe\"",
		"names: a":                "names: must be a list",
		"names: [a, b, c, d]":     "names: must have at most 3 entries, has 4",
		"tame: true":              "pet.yaml:1:1: name: must be given",
		"name: a\n---\nname: b":   "must hold one YAML document",
		"name: \xff":              "must be UTF-8 text",
		"? {a: b}\n: c":           "this key is not a setting",
		strings.Repeat("#", strictyaml.MaxFile+1): "must be at most 1 MiB",
	} {
		_, err := read(data)
		var problems strictyaml.Diagnostics
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %s", data, err, want)
		}
	}
}

// All problems of a file are reported in its order, up to a bound.
func TestReportsAll(t *testing.T) {
	_, err := read("tame: 1\nnames: [1, x, 2]\nname: 3\n")
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "pet.yaml:1:") || !strings.HasPrefix(lines[3], "pet.yaml:3:") {
		t.Errorf("%v", err)
	}
	_, err = read(strings.Repeat("x: 1\n", strictyaml.MaxDiagnostics+5))
	if lines = strings.Split(err.Error(), "\n"); lines[len(lines)-1] != "pet.yaml: and 5 more problems" {
		t.Errorf("%s", lines[len(lines)-1])
	}
}

// A problem of a setting that is not there is put at the one above it.
func TestPositions(t *testing.T) {
	l := strictyaml.NewDecoder("f")
	l.SetPosition("a[0]", strictyaml.Position{Line: 4, Col: 2})
	l.Reportf("a[0].b.c", "must be %d", 1)
	if got := l.Err().Error(); got != "f:4:2: a[0].b.c: must be 1" || l.File() != "f" || l.Len() != 1 ||
		len(l.Diagnostics()) != 1 {
		t.Errorf("%s", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("name: a\ntame: true\nnames: [b]\n")
	f.Add("a: &b [*b]\n")
	f.Fuzz(func(t *testing.T, data string) {
		p, err := read(data)
		if err == nil && (len(p.Names) > 3 || strings.TrimSpace(p.Name) != p.Name) {
			t.Errorf("%+v", p)
		}
	})
}
