package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDrillSpecAndCheck: what is printed can be checked, edited and refused, with
// the place of the mistake.
func TestDrillSpecAndCheck(t *testing.T) {
	g := newTestEnv(t)
	spec := g.runBare("drill", "spec", "burst")
	if spec.code != 0 || !strings.HasPrefix(spec.out, "id: burst\n") {
		t.Fatalf("exit %d\n%s%s", spec.code, spec.out, spec.err)
	}
	dir := files(t, map[string]string{
		"good.yaml":  spec.out,
		"empty.yaml": strings.Replace(spec.out, "abort_if:\n  - error_share >= 50%\n  - in_flight_over_limit >= 8\n", "", 1),
		"service.yaml": strings.Replace(spec.out, "uniform:5s-30s",
			"uniform:30s-5s", 1),
	})
	check := func(file string) cliResult { return g.runBare("drill", "check", filepath.Join(dir, file)) }
	good := check("good.yaml")
	for _, want := range []string{"from 120s to 240s: 2 times as many", "it must show: late_share <= 5%", "it stops when: error_share >= 50%"} {
		if good.code != 0 || !strings.Contains(good.out, want) {
			t.Errorf("exit %d, without %q:\n%s%s", good.code, want, good.out, good.err)
		}
	}
	for file, want := range map[string]string{
		"empty.yaml": "abort_if: must say when the drill is to stop", "service.yaml": ": scenario.service: service", "none.yaml": "read the drill",
	} {
		if r := check(file); r.code != 2 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("%s: exit %d\n%s%s", file, r.code, r.out, r.err)
		}
	}
	if r := g.runBare("drill", "spec", "brust"); r.code != 2 || !strings.Contains(r.err, "there are alert-path, burst") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}
