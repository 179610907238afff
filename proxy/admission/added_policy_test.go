package admission_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// courtesyRule is the rule of Courtesy in terms of the oracle.
func courtesyRule() rule {
	r := thresholdRule(25*time.Second, 2)
	article := r.admit
	r.policy = Courtesy{admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}}
	r.admit = func(o *oracle, j *job) admission.Reason {
		reason := article(o, j)
		if reason == admission.ReasonNone && j.class == admission.Batch && len(o.waiting) >= o.workers {
			reason = admission.ReasonQueueDepth
		}
		return reason
	}
	return r
}

// TestAddedPolicyAgainstOracle drives a policy that is not built in.
func TestAddedPolicyAgainstOracle(t *testing.T) {
	seen := driveAll(t, 100_000, courtesyRule(), noneRule())
	if seen["queue_depth"] == 0 || seen["queue_age"] == 0 {
		t.Errorf("the driver never reached a refusal: %v", seen)
	}
}

// TestGuideMatchesExample keeps the guide's code the one that is tested here.
func TestGuideMatchesExample(t *testing.T) {
	guide := read(t, "../../docs/adding-a-policy.md")
	for file, from := range map[string]string{
		"example_policy_test.go": "// Courtesy is",
		"added_policy_test.go":   "// courtesyRule is",
	} {
		source := read(t, file)
		code := source[strings.Index(source, from):]
		end := strings.Index(code, "\n}\n\n// A policy is a value")
		if end < 0 {
			end = strings.Index(code, "\n}\n")
		}
		if code = "```go\n" + code[:end] + "\n}\n```"; !strings.Contains(guide, code) {
			t.Errorf("docs/adding-a-policy.md does not show this part of %s:\n%s", file, code)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
