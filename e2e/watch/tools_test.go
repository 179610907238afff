package watch

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
)

// runPromtool runs promtool with a text as its input.
func runPromtool(t *testing.T, input string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not installed, and this test needs it: Debian has it in the package prometheus")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Prometheus accepts the metrics of a gate with an open incident, and the exported rules.
func TestPrometheusAcceptsMetricsAndRules(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 2, 3)}, Workers: 4}.Start(t, slack)
	fired := d.AwaitFiring(t, "workers", "page")
	d.AwaitSettled(t, fired.ID)
	runPromtool(t, d.MetricsText(t), "check", "metrics")
	m := d.Scrape(t)
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"headgate_rule_state", []string{"rule", "workers", "pool", "main", "state", "page"}, 1},
		{"headgate_rule_state", []string{"rule", "workers", "pool", "main"}, 1},
		{"headgate_incidents_open", []string{"severity", "page"}, 1},
		{"headgate_incidents_open", []string{"severity", "warn"}, 0},
		{"headgate_deliveries_total", []string{"channel", "page", "result", "sent"}, 1},
		{"headgate_delivery_oldest_pending_seconds", nil, 0},
	} {
		if got := m.Sum(c.name, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	checkRules(t, exportRules(t, d.Dir(), "--config", harness.SettingsFile(d.Dir())))
	builtIn := exportRules(t, t.TempDir())
	for _, alert := range []string{"HeadgateQueueAge", "HeadgateSloBurn1h", "HeadgateStalled", "HeadgateSignalMissing"} {
		if !strings.Contains(builtIn, "alert: "+alert+"\n") {
			t.Errorf("the built-in rules are exported without %s", alert)
		}
	}
	checkRules(t, builtIn)
}

// checkRules checks rules with promtool, which reads them from files only.
func checkRules(t *testing.T, rules string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	harness.WriteFile(t, file, rules)
	runPromtool(t, "", "check", "rules", file)
}

func exportRules(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	args := append([]string{"rules", "export", "--format", "prometheus"}, flags...)
	p, code := harness.RunToEnd(t, harness.Command{Args: args, Dir: dir})
	if code != 0 {
		t.Fatalf("rules export ended with %d: %s", code, p.Stderr())
	}
	return p.Stdout()
}

// The exported rules file is valid.
func TestExportedRulesAreValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, code := harness.RunToEnd(t, harness.Command{Args: []string{"rules", "export"}, Dir: dir})
	if code != 0 {
		t.Fatalf("rules export ended with %d: %s", code, p.Stderr())
	}
	file := dir + "/rules.yaml"
	harness.WriteFile(t, file, p.Stdout())
	if p, code := harness.RunToEnd(t, harness.Command{Args: []string{"rules", "check", file}, Dir: dir}); code != 0 || !strings.Contains(p.Stdout(), "queue_age") {
		t.Errorf("rules check ended with %d: %s%s", code, p.Stdout(), p.Stderr())
	}
}
