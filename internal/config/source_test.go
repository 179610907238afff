package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"headgate/internal/strictyaml"
)

func TestAtFindsThePlaceOrItsNearestParent(t *testing.T) {
	c, err := Parse("f.yaml", []byte("# head\ndrain: 5s\npools:\n  - name: a\n    upstream: http://127.0.0.1/v1\n    slo:\n      turnaround: 50s\n    models: [x, y]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("is not liked")
	for path, want := range map[string]string{
		"drain":                       "f.yaml:2:1: drain: is not liked",
		"pools":                       "f.yaml:3:1: pools: is not liked",
		"pools[0]":                    "f.yaml:4:5: pools[0]: is not liked",
		"pools[0].slo.turnaround":     "f.yaml:7:7: pools[0].slo.turnaround: is not liked",
		"pools[0].slo.objective":      "f.yaml:6:5: pools[0].slo.objective: is not liked",
		"pools[0].admission.policy":   "f.yaml:4:5: pools[0].admission.policy: is not liked",
		"pools[0].models[1]":          "f.yaml:8:17: pools[0].models[1]: is not liked",
		"pools[7].name":               "f.yaml:3:1: pools[7].name: is not liked",
		"log.level":                   "f.yaml:2:1: log.level: is not liked",
		"":                            "f.yaml:2:1: is not liked",
		"not a path ]][[..":           "f.yaml:2:1: not a path ]][[..: is not liked",
		"pools[0].slo.turnaround.sub": "f.yaml:7:7: pools[0].slo.turnaround.sub: is not liked",
	} {
		got := c.At(path, cause)
		if got.Error() != want {
			t.Errorf("got  %v\nwant %s", got, want)
		}
		if !errors.Is(got, cause) {
			t.Errorf("%s: the cause is lost", path)
		}
	}
}

func TestAtWithoutAFileKnowsThePath(t *testing.T) {
	fromEnvironment, err := FromEnvironment(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Config{"built in": Default(), "environment": fromEnvironment} {
		if got := c.At("pools[0].mode", errors.New("no")).Error(); got != "pools[0].mode: no" {
			t.Errorf("%s: %s", name, got)
		}
		if err := c.At("pools[0].mode", nil); err != nil {
			t.Errorf("%s: made an error of nil: %v", name, err)
		}
	}
}

func TestDiagnosticsUnwrap(t *testing.T) {
	_, err := Parse("f.yaml", []byte("drain: 5\nhosts: [a, 'b:1']\n"), nil)
	problems, ok := errors.AsType[strictyaml.Diagnostics](err)
	if !ok || len(problems) != 2 {
		t.Fatalf("got %#v", err)
	}
	p, ok := errors.AsType[strictyaml.Diagnostic](fmt.Errorf("starting: %w", err))
	if !ok || p.File != "f.yaml" || p.Line != 1 || p.Col != 1 || p.Path != "drain" ||
		!strings.HasPrefix(p.Message, "must have a unit") {
		t.Errorf("got %#v", p)
	}
	if second := problems[1]; second.Line != 2 || second.Col != 12 || second.Path != "hosts[1]" {
		t.Errorf("got %#v", second)
	}
}

func TestDiagnosticsAreBoundedAndCounted(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "k%d: 1\n", i)
	}
	_, err := Parse("f.yaml", []byte(text.String()), nil)
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != strictyaml.MaxDiagnostics+1 || lines[strictyaml.MaxDiagnostics] != "f.yaml: and 800 more problems" {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
}

func TestValidateChecksConfigBuiltInCode(t *testing.T) {
	c := Default()
	c.Pools[0].Workers, c.Pools[0].Name, c.Drain = 0, "", -1
	want := "drain: must not be negative, is -1ns\npools[0].name: is missing: give a name such as default\npools[0].workers: must be at least 1, is 0"
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
