package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
	"headgate/runbooks/control"
	"headgate/web/api"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func pointer[T any](v T) *T { return &v }

// degradedStatus is a status with everything in it that a person should see.
var degradedStatus = api.Status{Version: "v1", Pools: []control.PoolStatus{
	{Name: "default", Mode: "enforce", ModeSince: noon.Add(-time.Hour), ModeBy: "settings", Workers: 4, InFlight: 4,
		QueueDepth:      3,
		QueueOldestAgeS: 12.34, P95TurnaroundS: pointer(41.2), SLOS: 60, EnvelopeUse: pointer(0.876), Refused1m: 12,
		Admitted1m: 31},
	{Name: "big", Mode: "passthrough", ModeSince: noon.Add(-31 * time.Minute), ModeBy: "ana@host",
		ModeReason: "p95 climbs", ModeBefore: pointer("observe"),
		ModeRecorded: pointer(false), Workers: 8, InFlight: 8, QueueDepth: 120, QueueOldestAgeS: 95,
		P95TurnaroundS: pointer(140.0), SLOS: 60,
		Overdue: 42, DrainS: 310, Admitted1m: 9, Draining: true},
	{Name: "new", Mode: "observe", ModeSince: noon.Add(-50 * time.Hour), ModeBy: "bob@host", SLOS: 3600, Workers: 1},
}, IncidentsOpen: []api.Incident{
	{Incident: engine.Incident{ID: "0198-a", Key: engine.Key{Rule: "queue_age", Pool: "big"}, Level: engine.LevelPage,
		Summary: "the oldest waiting task has waited for long", AckedBy: "ana@host"}},
	{Incident: engine.Incident{ID: "0198-b", Key: engine.Key{Rule: "journal_failing"}, Level: engine.LevelWarn,
		Summary: "the record cannot be written or read"}},
}}

const degradedTable = `POOL     MODE         IN FLIGHT  QUEUED  OLDEST  P95    SLO    USE    REFUSED/MIN  ADMITTED/MIN
default  enforce      4/4        3       12s     41s    60s    87.6%  12           31
big      PASSTHROUGH  8/8        120     95s     2m20s  60s    -      0            9
new      OBSERVE      0/1        0       0s      -      1h00m  -      0            0

big: PASSTHROUGH since 11:29:00Z (31m00s ago) by ana@host: p95 climbs
     back to observe: headgate restore --pool big --admin X
     the mode is not recorded yet: a restart would lose it
     42 of 120 queued can no longer meet their deadline; the queue takes 5m10s to drain
     draining: takes no new tasks

new: OBSERVE since 2026-01-29 10:00Z (2d02h ago) by bob@host: no reason given
     back to enforce: headgate restore --pool new --admin X

PAGE queue_age (big): the oldest waiting task has waited for long; acknowledged by ana@host
  headgate incident show 0198-a --admin X
WARN journal_failing (headgate itself): the record cannot be written or read
  headgate incident show 0198-b --admin X
`

// testStatus shows a status as of noon, with --admin X.
func testStatus(shown *api.Status, colour bool) string {
	s := Status{Service: Service{Endpoint: Endpoint{Admin: "X"}, Env: Env{Now: func() time.Time { return noon }}}}
	p := printer{colour: colour}
	s.table(&p, shown)
	return p.String()
}

func TestStatusTable(t *testing.T) {
	if diff := cmp.Diff(degradedTable, testStatus(&degradedStatus, false)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	coloured := testStatus(&degradedStatus, true)
	for _, want := range []string{"\x1b[1;31mbig", "\x1b[1;33mnew", "\x1b[1;31mPAGE", "\x1b[1;33mWARN"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("no %q in colour:\n%s", want, coloured)
		}
	}
	if strings.Contains(coloured, "mdefault") {
		t.Error("a pool that enforces is highlighted")
	}
}

// TestStatusIsPrintable: text from the service cannot control a terminal.
func TestStatusIsPrintable(t *testing.T) {
	evil := "x\x1b[2J\n\u202e\x07"
	out := testStatus(&api.Status{Pools: []control.PoolStatus{{Name: evil, Mode: evil, ModeBy: evil, ModeReason: evil,
		ModeBefore: &evil}}}, false)
	if strings.ContainsAny(out, "\x1b\x07\u202e") {
		t.Errorf("out %q", out)
	}
}

// TestWatch looks every second, goes on when there is no answer, and ends
// without an error.
func TestWatch(t *testing.T) {
	tests := []struct {
		name         string
		screen, json bool
		out, err     string
	}{
		{"lines", false, false, "default enforce in_flight=4/4 queued=3 oldest=12s p95=41s refused_1m=12 admitted_1m=31\n",
			"gone"},
		{"screen", true, false, clearScreen, ""},
		{"json", false, true, `{"version":"v1"`, "gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, messages bytes.Buffer
				looks := 0
				env := Env{Now: time.Now, LookupEnv: func(string) (string, bool) { return "", false }}
				v := Status{Service: Service{Env: env, Out: &out, Err: &messages, JSON: tt.json}, screen: tt.screen,
					fetch: func(context.Context) (api.Status, error) {
						if looks++; looks == 3 {
							return api.Status{}, errors.New("gone")
						}
						return degradedStatus, nil
					}}
				ctx, stop := context.WithTimeout(t.Context(), 4500*time.Millisecond)
				defer stop()
				v.watch(ctx)
				if looks != 5 {
					t.Errorf("%d looks in 4.5 s", looks)
				}
				want := 4
				if tt.screen {
					want = 5
				}
				if n := strings.Count(out.String(), tt.out); n != want {
					t.Errorf("%d times %q in %q", n, tt.out, out.String())
				}
				if !strings.Contains(messages.String(), tt.err) || tt.screen && !strings.Contains(out.String(), "gone") {
					t.Errorf("messages %q, out %q", messages.String(), out.String())
				}
			})
		})
	}
}
