package hostile

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
)

// more is how much memory an attack may cost, in MiB, beside what the gate takes
// by itself.
const more = 96

// Bodies that are too large, too deep, packed, or not what they say are refused.
func TestBodies(t *testing.T) {
	t.Parallel()
	g := aim(t)
	before := memory(g.PID())
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
				if status, _, body := g.wire(t, c.text); status != c.want {
					t.Errorf("%s: status %d, want %d: %s", c.name, status, c.want, body)
				}
			})
		}
		all.Wait()
	}
	g.goesOn(t)
	if after := memory(g.PID()); after > before+more {
		t.Errorf("it held up to %d MiB, and %d before", after, before)
	}
}

// Who sends a header slowly, or never to its end, is cut off.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	const crowd = 500
	g := aim(t)
	before := memory(g.PID())
	hoard := rig.NewHoard(strings.TrimPrefix(g.Admin, "http://"))
	defer hoard.Close()
	for _, piece := range []string{"", "P", "PUT /api/v1/mode HTTP/1.1\r\n", "PUT /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 4<<10)} {
		if made := hoard.Grow(crowd/4, []byte(piece)...); made != crowd/4 {
			t.Fatalf("%d of %d connections came about", made, crowd/4)
		}
	}
	g.goesOn(t)
	harness.Until(t, "all are cut off", func() bool { return hoard.Closed() == crowd })
	g.goesOn(t)
	if after := memory(g.PID()); after > before+more {
		t.Errorf("it held up to %d MiB, and %d before", after, before)
	}
}

// Ten thousand connections to the admin listener, or as many as may be opened
// here, take nothing from the data plane, and on-call still gets through.
func TestManyConnections(t *testing.T) {
	const crowd, each = 10_000, 64 << 10
	g := aim(t)
	before := memory(g.PID())
	hoard := rig.NewHoard(strings.TrimPrefix(g.Admin, "http://"))
	defer hoard.Close()
	made := hoard.Grow(rig.FilesLeft(crowd), []byte("GET /api/v1/status HTTP/1.1\r\n")...)
	t.Logf("%d connections to the admin listener", made)
	if made < min(crowd, rig.FilesLeft(crowd)) {
		t.Errorf("only %d of %d connections came about", made, crowd)
	}
	g.goesOn(t)
	start := time.Now()
	if d := g.Command(t, "rollback"); d.Code != 0 {
		t.Errorf("rollback: exit code %d, stderr %q", d.Code, d.Err)
	}
	t.Logf("a rollback took %v meanwhile; the gate held up to %d MiB, and %d before", time.Since(start), memory(g.PID()), before)
	if after := memory(g.PID()); after > before+more+made*each>>20 {
		t.Errorf("it held up to %d MiB, and %d before", after, before)
	}
	if a := g.crowd.Send(); a.Status != 200 || !a.Whole {
		t.Errorf("a task met with %+v", a)
	}
}
