package adversarial

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// maxGrowthMiB limits the memory that an attack may cost, in MiB.
const maxGrowthMiB = 96

// Bodies that are too large, nested too deeply, compressed, or of another type are refused.
func TestBodies(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	before := peakMemoryMiB(g.PID())
	head := "PUT /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + g.token + "\r\n"
	sized := func(headers, body string) string {
		return fmt.Sprintf("%sContent-Length: %d\r\n%s\r\n%s", head, len(body), headers, body)
	}
	const plain = "Content-Type: application/json\r\n"
	chunk := strings.Repeat("x", 1<<20)
	chunked := "Transfer-Encoding: chunked\r\n" + plain + "\r\n" + strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk), 8)
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"large", sized(plain, `{"mode":"passthrough","reason":"`+strings.Repeat("x", 8<<20)+`"}`), 413},
		{"large in chunks", head + chunked, 413},
		{"a length of a terabyte", head + "Content-Length: 1099511627776\r\n" + plain + "\r\n" + chunk, 413},
		{"deep", sized(plain, strings.Repeat("[", 60_000)), 400},
		{"deep inside", sized(plain, `{"mode":`+strings.Repeat("[", 60_000)), 400},
		{"packed", sized(plain+"Content-Encoding: gzip\r\n", "\x1f\x8b\x08\x00"), 415},
		{"a form", sized("Content-Type: application/x-www-form-urlencoded\r\n", "mode=passthrough"), 415},
		{"empty", sized(plain, ""), 400},
		{"twice", sized(plain, `{"mode":"enforce","mode":"passthrough"}`), 400},
		{"and more", sized(plain, `{"mode":"passthrough"}{}`), 400},
		{"a bad name", sized(plain, "{\"mode\":\"passthrough\",\"reason\":\"\x1b[2J\"}"), 400},
		{"half of it", head + "Content-Length: 100\r\n" + plain + "\r\n{\"mode\":", 400}, // the rest never comes
	} {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if status, _, body := g.sendRaw(t, c.text); status != c.want {
					t.Errorf("%s: status %d, want %d: %s", c.name, status, c.want, body)
				}
			})
		}
		all.Wait()
	}
	g.checkServes(t)
	if after := peakMemoryMiB(g.PID()); after > before+maxGrowthMiB {
		t.Errorf("it held up to %d MiB, and %d before", after, before)
	}
}

// Connections that send a header slowly or incompletely are closed.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	const crowd = 500
	g := newTarget(t)
	before := peakMemoryMiB(g.PID())
	idle := rollbacktest.NewIdleConns(strings.TrimPrefix(g.Admin, "http://"))
	defer idle.Close()
	for _, piece := range []string{"", "P", "PUT /api/v1/mode HTTP/1.1\r\n", "PUT /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 4<<10)} {
		if made := idle.Open(crowd/4, []byte(piece)...); made != crowd/4 {
			t.Fatalf("%d of %d connections came about", made, crowd/4)
		}
	}
	g.checkServes(t)
	harness.Eventually(t, "all are cut off", func() bool { return idle.ClosedByPeer() == crowd })
	g.checkServes(t)
	if after := peakMemoryMiB(g.PID()); after > before+maxGrowthMiB {
		t.Errorf("it held up to %d MiB, and %d before", after, before)
	}
}

// 10,000 connections to the admin listener, or as many as can be opened here, do not affect the
// data plane, and the right token is still accepted.
func TestManyConnections(t *testing.T) {
	const crowd, each = 10_000, 64 << 10
	g := newTarget(t)
	before := peakMemoryMiB(g.PID())
	idle := rollbacktest.NewIdleConns(strings.TrimPrefix(g.Admin, "http://"))
	defer idle.Close()
	made := idle.Open(rollbacktest.FreeFiles(crowd), []byte("GET /api/v1/status HTTP/1.1\r\n")...)
	t.Logf("%d connections to the admin listener", made)
	if made < min(crowd, rollbacktest.FreeFiles(crowd)) {
		t.Errorf("only %d of %d connections came about", made, crowd)
	}
	g.checkServes(t)
	start := time.Now()
	if d := g.Command(t, "rollback"); d.ExitCode != 0 {
		t.Errorf("rollback: exit code %d, stderr %q", d.ExitCode, d.Stderr)
	}
	t.Logf("a rollback took %v meanwhile; the gate held up to %d MiB, and %d before", time.Since(start), peakMemoryMiB(g.PID()), before)
	if after := peakMemoryMiB(g.PID()); after > before+maxGrowthMiB+made*each>>20 {
		t.Errorf("it held up to %d MiB, and %d before", after, before)
	}
	if a := g.clients.Send(); a.Status != 200 || !a.Complete {
		t.Errorf("a task met with %+v", a)
	}
}
