package program

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

func lookPath(t *testing.T, command, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		t.Fatalf("%s is not installed, and this test needs it: Debian has it in the package %s", command, debianPackage)
	}
	return path
}

// children returns the child processes of a process, on Linux.
func children(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func runWithInput(name, input string, args ...string) (output string, err error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// busyGate starts a gate and uses every kind of metric: answers, refusals, errors, a running task
// and queued ones.
func busyGate(t *testing.T) *harness.Gate {
	t.Helper()
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{
		Upstream: stub.V1(), Workers: 1, Pool: "models: [stub-model]\nadmission: {depth_multiple: 1}",
	})
	for _, fault := range []string{"", "status=500", "status=429", "truncate=half", "reset"} {
		send(t.Context(), gate.URL, map[string]string{"Stub-Fault": fault})
	}
	send(t.Context(), gate.URL, map[string]string{"Headgate-Priority": "urgent"})
	for range 3 {
		sendAsync(t, gate.URL, map[string]string{"Stub-Fault": "hang"})
	}
	harness.Eventually(t, "the gate is full", func() bool {
		m := gate.Scrape(t)
		return m.Sum("headgate_in_flight") == 1 && m.Sum("headgate_queue_depth") == 2
	})
	if r := send(t.Context(), gate.URL, nil); r.status != 429 {
		t.Errorf("a full gate answered %+v", r)
	}
	return gate
}
