package admit_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/proxy/admit"
)

// names returns the words of some values.
func names[T fmt.Stringer](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}

// TestWords holds the words that settings, headers, metrics and the record use:
// changing one breaks what others have stored.
func TestWords(t *testing.T) {
	tests := []struct {
		what      string
		got, want []string
	}{
		{"modes", names(admit.Modes()), []string{"enforce", "observe", "passthrough"}},
		{"classes", names([]admit.Class{admit.Interactive, admit.Batch}), []string{"interactive", "batch"}},
		{"reasons", names(admit.Reasons()), []string{
			"queue_age", "queue_depth", "deadline_unmeetable", "deadline_passed", "client_quota", "memory", "draining",
		}},
		{"outcomes", names(admit.Outcomes()), []string{
			"completed", "refused", "deadline_passed", "client_gone", "upstream_error", "upstream_refused",
			"upstream_timeout", "truncated", "cancelled", "drained", "invalid",
		}},
		{"no reason", names([]admit.Reason{admit.ReasonNone}), []string{""}},
		{"beyond the last", []string{
			admit.Mode(200).String(), admit.Class(200).String(), admit.Reason(200).String(), admit.Outcome(200).String(),
		}, []string{"unknown(200)", "unknown(200)", "unknown(200)", "unknown(200)"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range admit.Modes() {
		if got, err := admit.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%s is read as %s, %v", m, got, err)
		}
	}
	for _, word := range []string{"", "Enforce", "enforce ", "off", "unknown(3)"} {
		_, err := admit.ParseMode(word)
		want := fmt.Sprintf("unknown mode %q: must be enforce, observe or passthrough", word)
		if err == nil || err.Error() != want {
			t.Errorf("%q: error is %v, want %s", word, err, want)
		}
	}
}

// TestOutcomeOfReason: what left for its deadline, or because the process goes
// down, was not refused at the door.
func TestOutcomeOfReason(t *testing.T) {
	want := map[admit.Reason]admit.Outcome{
		admit.ReasonDeadlinePassed: admit.DeadlinePassed,
		admit.ReasonDraining:       admit.Drained,
	}
	for _, r := range admit.Reasons() {
		outcome, ok := want[r]
		if !ok {
			outcome = admit.Refused
		}
		if got := r.Outcome(); got != outcome {
			t.Errorf("%s ends as %s, want %s", r, got, outcome)
		}
	}
}
