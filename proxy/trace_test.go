package proxy

import (
	"net/http"
	"strings"
	"testing"

	"headgate/proxy/admission"
)

// A task that never goes upstream can be found in the log all the same.
func TestTaskThatEndsEarlyHasATrace(t *testing.T) {
	r := newTestProxy(t, nil)
	r.wantFailure(r.post(chatPath, "{", "X-Request-Id", "mine"), http.StatusBadRequest, "invalid_json")
	seen := r.wantOutcome(admission.Invalid, http.StatusBadRequest)
	if seen.RequestID != "mine" || len(seen.TraceID) != 32 || strings.Trim(seen.TraceID, "0") == "" {
		t.Errorf("request %q, trace %q", seen.RequestID, seen.TraceID)
	}
	for _, id := range []string{seen.TaskID, "request=mine", "trace=" + seen.TraceID} {
		if !strings.Contains(r.logs.String(), id) {
			t.Errorf("%s is not in the log:\n%s", id, r.logs)
		}
	}
}
