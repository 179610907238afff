package mutation

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// module writes a module of one package and returns its folder. The package is
// spread over two files.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.26\n",
		"p/a.go": `package p

import "strings"

type Box struct {
	n, limit int
	name     string
}

func (b *Box) Add(by int) (sum int) {
	if by < 0 {
		return b.n
	}
	for b.n < b.limit && !b.full() {
		b.n += by // all at once
		break
	}
	switch {
	case b.n > 9:
		b.name = strings.ToUpper(b.name)
	}
	return func() int { return b.n }()
}
`,
		"p/b.go":      "package p\n\nfunc (b *Box) full() bool { return b.n == b.limit }\n",
		"p/a_test.go": "package p\n\nfunc testOnly() {}\n",
		"q/q.go":      "package q\n\nimport \"strconv\"\n\nfunc Add() string { return strconv.Itoa(1) }\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const box = Package("p")

var (
	add  = box.Function("Box.Add")
	full = box.Function("Box.full")
)

var lineComment = regexp.MustCompile(`/\*line [^*]*\*/`)

// plain returns a changed text without line comments and spaces.
func plain(text string) string {
	return strings.Join(strings.Fields(lineComment.ReplaceAllString(text, "")), " ")
}

func TestPlaces(t *testing.T) {
	for name, tt := range map[string]struct {
		edits []Edit
		want  string // part of the changed text, with single spaces
	}{
		"start":               {[]Edit{full.Start().Code("one()")}, "bool { one() return b.n"},
		"before a return":     {[]Edit{add.Before(Return(1)).Code("one()")}, "{ one() return b.n }"},
		"before a nested one": {[]Edit{add.Before(Return(3)).Code("one()")}, "int { one() return b.n }()"},
		"before a call":       {[]Edit{add.Before(Call("ToUpper")).Code("one()")}, "9: one() b.name ="},
		"around a loop":       {[]Edit{add.Before(Call("full")).Code("one()")}, "} one() for b.n"},
		"after":               {[]Edit{add.After(Assign("b.n")).Code("one()")}, "b.n += by one() // all"},
		"end of a selector":   {[]Edit{add.After(Assign("name")).Code("one()")}, "(b.name) one() }"},
		"inside an if":        {[]Edit{add.Inside(Expr("by < 0")).Code("one()")}, "0 { one() return"},
		"inside a loop":       {[]Edit{add.Inside(Call("full")).Code("one()")}, "b.full() { one() b.n +="},
		"inside a case":       {[]Edit{add.Inside(Expr("b.n > _")).Code("one()")}, "9: one() b.name"},
		"an expression":       {[]Edit{add.Replace(Expr("_ < (_.limit)")).Code("($ || yes)")}, "for (b.n < b.limit || yes) &&"},
		"a statement":         {[]Edit{add.ReplaceStatement(Call("ToUpper")).Code("if yes { $ }")}, "if yes { b.name = strings.ToUpper(b.name) } }"},
		"the second":          {[]Edit{add.Before(Expr("b.n").Nth(1)).Code("one()")}, "{ one() return b.n }"},
		"its own name":        {[]Edit{full.Start().Code(`if mutated() || mutated("y") {}`)}, `if mutated("x") || mutated("y") {}`},
		"a declaration":       {[]Edit{box.Declare("var one = 1")}, "var one = 1"},
		"in order": {
			[]Edit{full.Start().Code("one()"), full.Start().Code("two()"), full.After(Return(1)).Code("three()"), full.After(Return(1)).Code("four()")},
			"{ one() two() return b.n == b.limit three() four() }",
		},
		"one in the other": {
			[]Edit{
				full.Replace(Expr("b.n")).Code("($ + 1)"), full.Replace(Expr("_ == _")).Code("($ || one)"),
				full.Replace(Expr("_ == _")).Code("($ || two)"), full.ReplaceStatement(Return(1)).Code("if yes { $ }"),
			},
			"if yes { return (((b.n + 1) == b.limit || two) || one) }",
		},
	} {
		t.Run(name, func(t *testing.T) {
			texts, _, err := apply(module(t), []Fault{{Name: "x", Edits: tt.edits}})
			if err != nil {
				t.Fatal(err)
			}
			all := ""
			for _, text := range texts {
				all += plain(text) + "\n"
			}
			if !strings.Contains(all, tt.want) {
				t.Errorf("got %s\nwant %s", all, tt.want)
			}
		})
	}
}

// The error names the fault and the place, and lists the candidates.
func TestEditsThatFindNoPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		edit Edit
		want []string
	}{
		"no package":           {Package("r").Function("Box.Add").Start().Code(""), []string{"r Box.Add", "package not found; there is one in p"}},
		"no function":          {box.Function("Box.Ad").Start().Code(""), []string{"p Box.Ad: function not found", "Box.Add; Box.full"}},
		"another type":         {box.Function("Crate.Add").Start().Code(""), []string{"similar ones: Box.Add"}},
		"another package":      {box.Function("Add").Start().Code(""), []string{"there is one in q"}},
		"only in tests":        {box.Function("testOnly").Start().Code(""), []string{"function not found"}},
		"no call":              {add.Before(Call("empty")).Code(""), []string{"call of empty not found", "b.full", "strings.ToUpper"}},
		"half a name":          {add.Before(Call("ull")).Code(""), []string{"call of ull not found"}},
		"no assignment":        {add.After(Assign("m")).Code(""), []string{"assignment to m not found", "b.n", "b.name"}},
		"no expression":        {add.Replace(Expr("_ < _.n")).Code("$"), []string{"expression _ < _.n not found", "b.n < b.limit"}},
		"no such return":       {add.Before(Return(4)).Code(""), []string{"return statement, number 4 not found", "return b.n"}},
		"several":              {add.Replace(Expr("b.n")).Code("$"), []string{"found 5 times, at a.go:12, a.go:14"}},
		"no head":              {add.Inside(Assign("b.name")).Code(""), []string{"not part of a statement or branch"}},
		"a statement replaced": {add.Replace(Assign("b.name")).Code("$"), []string{"not part of"}},
		"no original":          {add.Replace(Expr("by < 0")).Code("true"), []string{"must contain $ once"}},
		"no Go":                {full.Start().Code("one("), []string{`code "one("`}},
		"no pattern":           {full.Before(Expr("a <")).Code(""), []string{`pattern "a <"`}},
	} {
		_, _, err := apply(module(t), []Fault{{Name: "x"}, {Name: "broken", Edits: []Edit{full.Start().Code(""), tt.edit}}})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range append(tt.want, `(fault "broken")`) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", name, err, want)
			}
		}
	}
}

// One reason is given once, with all the faults that it concerns.
func TestReasonsAreGivenOnce(t *testing.T) {
	edits := []Edit{box.Function("Box.Gone").Start().Code("")}
	_, _, err := apply(module(t), []Fault{{"one", edits}, {"two", edits}})
	if err == nil || strings.Count(err.Error(), "Box.Gone") != 1 || !strings.Contains(err.Error(), `(fault "one", "two")`) {
		t.Errorf("error %v", err)
	}
}

// A fault without a name would be active in every program.
func TestNamelessFault(t *testing.T) {
	_, _, err := apply(module(t), []Fault{{Edits: []Edit{full.Start().Code("if mutated() {}")}}})
	if err == nil || !strings.Contains(err.Error(), "without a name") {
		t.Errorf("error %v", err)
	}
}

func TestCheck(t *testing.T) {
	root := module(t)
	sound := Fault{Name: "sound", Edits: []Edit{
		box.Declare("var found = strconv.Itoa(2)"),
		full.Start().Code(`if mutated() { return strings.Contains(found, strconv.Itoa(b.n)) }`), // neither is imported there
	}}
	if err := check(root, []Fault{sound}); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{
		"undefined: lid":  "if mutated() { return lid }",
		"b.lid undefined": "if mutated() && b.lid { return true }",
		"cannot use":      "if mutated() { return 1 }",
	} {
		err := check(root, []Fault{sound, {Name: "renamed", Edits: []Edit{full.Start().Code(code)}}})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "fault renamed") {
			t.Errorf("%s: error %v, want %s", code, err, name)
		}
	}
}

// After an insertion the compiler counts as in the original.
func TestLinesStay(t *testing.T) {
	root := module(t)
	err := check(root, []Fault{{Name: "x", Edits: []Edit{
		add.Inside(Expr("by < 0")).Code("strings := 1\n_ = strings\n\n"),
		add.Start().Code("strings := 1\n"), // hides the package that line 20 uses
	}}})
	if err == nil || !strings.Contains(err.Error(), filepath.Join("p", "a.go")+":20:") {
		t.Errorf("error %v, want one in line 20", err)
	}
}

// One build has all faults, the environment activates one, and the source stays as
// it is.
func TestBuild(t *testing.T) {
	file := filepath.Join(filepath.Dir(harness.Module(t)), "cmd", "headgate", "main.go")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	start := Package("cmd/headgate").Function("main").Start()
	path := Build(t,
		Fault{"one", []Edit{start.Code(`if mutated() { println("fault one") }`)}},
		Fault{"two", []Edit{start.Code(`if mutated() { println("fault two") }`)}})
	for fault, want := range map[string]string{"": "", "one": "fault one\n", "two": "fault two\n", "three": ""} {
		p, code := harness.RunToEnd(t, harness.Command{Program: path, Args: []string{"version"}, Env: []string{Variable + "=" + fault}})
		if got := p.Stderr(); code != 0 || got != want {
			t.Errorf("fault %q: exit code %d, stderr %q, want %q", fault, code, got, want)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(source) {
		t.Errorf("the source has changed (%v)", err)
	}
}

// Only changed files are replaced, and each changed package gets one file more.
func TestChangedFiles(t *testing.T) {
	root := module(t)
	texts, _, err := apply(root, []Fault{{Name: "x", Edits: []Edit{full.Start().Code("")}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(root, "p", "b.go"), filepath.Join(root, "p", addedFile)}
	if got := slices.Sorted(maps.Keys(texts)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
