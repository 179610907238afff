package adversarial

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// target is a gate whose upstream answers at once.
type target struct {
	*harness.Gate
	clients *rollbacktest.Clients
	token   string
}

func newTarget(t *testing.T) target {
	t.Helper()
	upstream := harness.StartHeldUpstream(t)
	upstream.Release()
	r := harness.StartWithPools(t, harness.PoolSettings("main", upstream.URL, 4))
	token, err := r.Token()
	if err != nil {
		t.Fatal(err)
	}
	return target{r, rollbacktest.NewClients(r.URL), token}
}

// checkServes checks that tasks are served, that the right token is accepted, and that the mode
// has not changed.
func (g target) checkServes(t *testing.T) {
	t.Helper()
	for range 20 {
		if a := g.clients.Send(); a.Status != 200 || !a.Complete {
			t.Fatalf("the result of a task: %+v", a)
		}
	}
	if p := g.Status(t)["main"]; p.Mode != "enforce" {
		t.Errorf("the mode is %s", p.Mode)
	}
	g.AwaitRecorded(t)
	if a := g.Audit(t); len(a) != 1 {
		t.Errorf("the audit has %d changes: %+v", len(a), a)
	}
}

// sendRaw sends the bytes of a request as they are.
func (g target) sendRaw(t *testing.T, text string) (status int, header http.Header, body string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.Admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(harness.Timeout))
	go func() { _, _ = io.WriteString(c, text) }() // it may be refused half-way
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer to %.80q: %v", text, err)
	}
	defer func() { _ = res.Body.Close() }()
	said, _ := io.ReadAll(res.Body) // the connection may be cut after the answer
	return res.StatusCode, res.Header, string(said)
}

// rawModeRequest returns a request for a rollback with some header lines.
func (g target) rawModeRequest(method string, headers ...string) string {
	const body = `{"mode":"passthrough"}`
	return fmt.Sprintf("%s /api/v1/mode HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n\r\n%s",
		method, len(body), strings.Join(headers, "\r\n"), body)
}

// peakMemoryMiB returns the peak memory of a process in MiB, or 0 if the system does not have
// it.
func peakMemoryMiB(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kib, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	return kib >> 10
}
