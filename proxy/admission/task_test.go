package admission_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/proxy/admission"
)

// names returns the words of some values.
func names[T fmt.Stringer](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}

// TestEnumNames holds the words that settings, headers, metrics and the record use:
// changing one breaks what others have stored.
func TestEnumNames(t *testing.T) {
	tests := []struct {
		what      string
		got, want []string
	}{
		{"modes", names(admission.Modes()), []string{"enforce", "observe", "passthrough"}},
		{"classes", names([]admission.Class{admission.Interactive, admission.Batch}), []string{"interactive", "batch"}},
		{"reasons", names(admission.Reasons()), []string{
			"queue_age", "queue_depth", "deadline_unmeetable", "deadline_passed", "client_quota", "memory", "draining",
		}},
		{"outcomes", names(admission.Outcomes()), []string{
			"completed", "refused", "deadline_passed", "client_gone", "upstream_error", "upstream_refused",
			"upstream_timeout", "truncated", "cancelled", "drained", "invalid",
		}},
		{"no reason", names([]admission.Reason{admission.ReasonNone}), []string{""}},
		{"beyond the last", []string{
			admission.Mode(200).String(), admission.Class(200).String(), admission.Reason(200).String(), admission.Outcome(200).String(),
		}, []string{"unknown(200)", "unknown(200)", "unknown(200)", "unknown(200)"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range admission.Modes() {
		if got, err := admission.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%s is read as %s, %v", m, got, err)
		}
	}
	for _, word := range []string{"", "Enforce", "enforce ", "off", "unknown(3)"} {
		_, err := admission.ParseMode(word)
		want := fmt.Sprintf("unknown mode %q: must be enforce, observe or passthrough", word)
		if err == nil || err.Error() != want {
			t.Errorf("%q: error is %v, want %s", word, err, want)
		}
	}
}

// TestOutcomeOfReason: a task that left for its deadline, or because the process
// shuts down, was not refused on arrival.
func TestOutcomeOfReason(t *testing.T) {
	want := map[admission.Reason]admission.Outcome{
		admission.ReasonDeadlinePassed: admission.DeadlinePassed,
		admission.ReasonDraining:       admission.Drained,
	}
	for _, r := range admission.Reasons() {
		outcome, ok := want[r]
		if !ok {
			outcome = admission.Refused
		}
		if got := r.Outcome(); got != outcome {
			t.Errorf("%s ends as %s, want %s", r, got, outcome)
		}
	}
}
