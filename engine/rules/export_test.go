package rules

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"headgate/engine/tsdb"
)

func exported(t *testing.T) ([]byte, promFile) {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, builtIn(t, settings())); err != nil {
		t.Fatal(err)
	}
	var file promFile
	if err := yaml.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), file
}

// What is exported has an alert for every threshold, records what the alerts read,
// and is valid PromQL throughout.
func TestExportComplete(t *testing.T) {
	_, file := exported(t)
	recorded, count := map[string]bool{}, 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
			if r.Alert == "" {
				continue
			}
			count++
			if r.Labels["severity"] != "warn" && r.Labels["severity"] != "page" || r.Annotations["summary"] == "" || r.For == "" {
				t.Errorf("alert %+v lacks something", r)
			}
			e, err := parse(r.Expr)
			if err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			for _, s := range e.selectors {
				if tsdb.IsRecorded(s.metric) && !recorded[s.metric] {
					t.Errorf("%s reads %s, which is not recorded before", r.Alert, s.metric)
				}
			}
		}
	}
	want := 0
	for _, r := range builtIn(t, settings()) {
		if r.Warn.Set && (r.Signal != "" || r.Pool != "") {
			want++
		}
		if r.Page.Set {
			want++
		}
	}
	if count != want {
		t.Errorf("%d alerts, want %d", count, want)
	}
}

// promtool, where it is installed, has the last word; elsewhere the same text is
// held against the same parser above.
func TestPromtoolTakesTheExport(t *testing.T) {
	text, _ := exported(t)
	if !strings.HasPrefix(string(text), "#") {
		t.Error("the file does not say where it comes from")
	}
	tool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func TestAlertNames(t *testing.T) {
	for name, want := range map[string]string{"queue_age": "HeadgateQueueAge", "slo_burn_1h": "HeadgateSloBurn1h", "a__b_": "HeadgateAB"} {
		if got := alertName(name); got != want {
			t.Errorf("%s became %s, want %s", name, got, want)
		}
	}
	if got := escapeTemplate("a {{ $x }}"); got != `a {{ "{{" }} $x }}` {
		t.Errorf("a text with braces became %s", got)
	}
}
