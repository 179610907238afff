package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/internal/config"
	"headgate/runbooks/drill/spec"
)

// weeklyDrillYAML is a definition, with something to replace.
const weeklyDrillYAML = `id: weekly
name: Weekly
schedule: "30 4 * * 1"
scenario:
  duration: 60s
  baseline: 30s
  arrivals: {rate: 0.2, rest: 0.2}
  service: fixed:5s
expect: [late_share <= 5%]
abort_if: [error_share >= 50%]
recovery: 60s
`

// indentLines is a definition as an item of the list.
func indentLines(text string) string {
	return "drills:\n  - " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}

func TestDrillsOfTheSettings(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "other.yaml"), []byte(strings.ReplaceAll(weeklyDrillYAML, "eekly", "hursday")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"in place", indentLines(weeklyDrillYAML), ""},
		{"of a file", "drills:\n  - file: other.yaml\n", ""},
		{"both", indentLines(weeklyDrillYAML) + "  - {file: other.yaml}\n", ""},
		{"a file that is not there", "drills:\n  - file: none.yaml\n", "f.yaml:2:5: drills[0].file: read the drill: open "},
		{"twice", indentLines(weeklyDrillYAML) + "  - {file: other.yaml}\n  - {file: other.yaml}\n", `drills: two drills have the ID "whursday"`},
		{"unknown pool", indentLines(strings.Replace(weeklyDrillYAML, "name: Weekly", "pool: other", 1)), "f.yaml:3:5: drills[0].pool: must be one of default"},
		{"service", indentLines(strings.Replace(weeklyDrillYAML, "fixed:5s", "fixed:9000h", 1)), "drills[0].scenario.service: service"},
		{"live", indentLines(strings.Replace(weeklyDrillYAML, "name: Weekly", "target: live", 1)), "needs allow_live: true"},
		{"nothing checked", indentLines(strings.Replace(weeklyDrillYAML, "expect: [late_share <= 5%]\n", "", 1)), "must have at least one expectation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse(filepath.Join(dir, "f.yaml"), []byte(c.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			all, err := drillSpecs(cfg)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v\nwant %s", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			builtIn, _ := spec.BuiltIn()
			if len(all) != len(builtIn)+len(cfg.Drills) {
				t.Errorf("%d drills", len(all))
			}
		})
	}
}
