package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/runbooks"
	"headgate/web/api"
)

// sampleReport is an open page in the middle of its life.
func sampleReport() api.IncidentReport {
	at := func(minute, second int) time.Time { return time.Date(2026, 1, 31, 11, minute, second, 0, time.UTC) }
	return api.IncidentReport{
		Incident: api.Incident{Incident: engine.Incident{
			ID: "01a22990-4f00-7a3e-8d51-6c2b9a4e11aa", Key: engine.Key{Rule: "queue_age", Pool: "big"}, Level: engine.LevelPage,
			Peak:   engine.LevelPage,
			Opened: at(26, 30), Changed: at(28, 5), Unit: "s",
			Summary: "the oldest waiting task has waited for long", Impact: "answers begin late", Runbook: "queue_age",
			ReopenCount: 2, Flapping: true,
		}, Value: new(95.24), Threshold: new(25.0)},
		Recorded: true,
		Events: api.EventsOf([]engine.Event{
			{Seq: 1, At: at(26, 30), Kind: engine.EventOpened, Level: engine.LevelWarn, Value: 25},
			{Seq: 2, At: at(28, 5), Kind: engine.EventEscalated, Level: engine.LevelPage, Value: 95.24, Digested: true},
			{Seq: 3, At: at(29, 0), Kind: engine.EventFlapping, Level: engine.LevelPage, Count: 5},
			{Seq: 4, At: at(30, 0), Kind: engine.EventReminder, Level: engine.LevelPage, Value: 95.24, Muted: true},
		}),
		Deliveries: []api.Delivery{
			{Seq: 1, Kind: "post", Destination: "warn", State: "sent", Attempts: 1, Tried: at(26, 30)},
			{Seq: 2, Kind: "reply", Destination: "page", State: "retry", Attempts: 2, Tried: at(26, 30), NextAttempt: at(32, 0),
				Reason: "rate limited"},
		},
	}
}

func incidentTextOf(r api.IncidentReport) string {
	s := ShowIncident{Service{Endpoint: Endpoint{Config: "hg.yaml"},
		Env: Env{Now: func() time.Time { return time.Date(2026, 1, 31, 11, 31, 30, 0, time.UTC) }}}}
	var p printer
	s.text(&p, &r)
	return p.String()
}

func TestIncidentText(t *testing.T) {
	const want = `PAGE  queue_age in big  open, flapping

what      the oldest waiting task has waited for long
impact    answers begin late
value     95.2s, page at 25s
since     2026-01-31T11:26:30Z (5m00s ago)
reopened  2 times
runbook   queue_age
id        01a22990-4f00-7a3e-8d51-6c2b9a4e11aa

#  AT                    EVENT      LEVEL  VALUE  BY  NOTE
1  2026-01-31T11:26:30Z  opened     warn   25s    -   -
2  2026-01-31T11:28:05Z  escalated  page   95.2s  -   suppressed while flapping
3  2026-01-31T11:29:00Z  flapping   page   0s     -   5 escalations
4  2026-01-31T11:30:00Z  reminder   page   95.2s  -   silenced: not sent

#  MESSAGE  TO    STATE  ATTEMPTS  LAST TRIED            NEXT                  REASON
1  post     warn  sent   1         2026-01-31T11:26:30Z  -                     -
2  reply    page  retry  2         2026-01-31T11:26:30Z  2026-01-31T11:32:00Z  rate limited

acknowledge: headgate incident ack 01a22990-4f00-7a3e-8d51-6c2b9a4e11aa --config hg.yaml
`
	page, ok := runbooks.Page("queue_age")
	if got := incidentTextOf(sampleReport()); !ok || got != want+"\n"+strings.TrimSpace(page)+"\n" {
		t.Errorf("shown\n%s\nwant\n%s\nand the page", got, want)
	}
}

func TestIncidentTextSingle(t *testing.T) {
	until, ended := time.Date(2026, 1, 31, 13, 31, 0, 0, time.UTC), time.Date(2026, 1, 31, 11, 36, 10, 0, time.UTC)
	tests := []struct {
		name string
		edit func(*api.IncidentReport)
		has  []string
		not  []string
	}{
		{"that is over", func(r *api.IncidentReport) { r.Ended, r.Resolution = ended, engine.Recovered },
			[]string{"page  queue_age in big  recovered after 9m40s\n", "\nuntil     2026-01-31T11:36:10Z\n"},
			[]string{"PAGE", "acknowledge:", "ago)"}},
		{"that is acknowledged", func(r *api.IncidentReport) { r.AckedBy, r.AckUntil = "ana@ops1", until },
			[]string{"open, acknowledged by ana@ops1 until 2026-01-31T13:31:00Z, flapping"}, []string{"acknowledge:"}},
		{"of the process", func(r *api.IncidentReport) { r.Pool, r.Runbook = "", "" }, []string{"PAGE  queue_age  open"},
			[]string{" in "}},
		{"with an unknown value", func(r *api.IncidentReport) { r.Value, r.Threshold = nil, nil }, []string{"?, page at ?"}, nil},
		{"without messages", func(r *api.IncidentReport) { r.Deliveries = nil }, []string{"\nno messages\n"},
			[]string{"MESSAGE"}},
		{"without a record", func(r *api.IncidentReport) { r.Recorded, r.Events, r.Deliveries = false, nil, nil },
			[]string{"timeline and messages are unavailable"}, []string{"no messages", "EVENT"}},
		{"that is long", func(r *api.IncidentReport) { r.Truncated = true }, []string{"only the newest 1000 are shown"}, nil},
		{"with little to say", func(r *api.IncidentReport) { r.Impact, r.Runbook, r.ReopenCount = "", "", 0 },
			[]string{"what "}, []string{"impact", "runbook", "reopened"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := sampleReport()
			tt.edit(&r)
			text := incidentTextOf(r)
			for _, part := range tt.has {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in\n%s", part, text)
				}
			}
			for _, part := range tt.not {
				if strings.Contains(text, part) {
					t.Errorf("%q is in\n%s", part, text)
				}
			}
		})
	}
}

func TestEndings(t *testing.T) {
	opened := time.Date(2026, 1, 31, 11, 26, 30, 0, time.UTC)
	for why, want := range map[engine.Resolution]string{
		engine.Recovered: "recovered after 9m40s", engine.NoTraffic: "ended (no traffic) after 9m40s",
		engine.RuleDeleted: "ended (rule deleted) after 9m40s",
		"":                 "ended after 9m40s", "other": "other after 9m40s",
	} {
		i := api.Incident{Incident: engine.Incident{Opened: opened, Ended: opened.Add(9*time.Minute + 40*time.Second),
			Resolution: why}}
		if got := incidentState(&i); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}

// TestComplete: an ID is completed only where it can mean one thing.
func TestComplete(t *testing.T) {
	all := func() ([]string, string, error) { return []string{"01a2-1", "01a2-12", "01b3"}, "", nil }
	same := func(id *string) string { return *id }
	for given, want := range map[string]string{"01b": "01b3", "01B3": "01b3", "01a2-1": "01a2-1", "01a2-12": "01a2-12"} {
		if got, err := resolveID("thing", given, all, same); err != nil || got != want {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
	for given, want := range map[string]string{
		"": "cannot be an ID", "01a": "2 things have IDs that begin with 01a: 01a2-1, 01a2-12; give more",
		"02": "no thing has an ID that begins with 02",
	} {
		if _, err := resolveID("thing", given, all, same); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", given, err, want)
		}
	}
	whole := strings.Repeat("a", fullIDLength)
	got, err := resolveID("thing", whole, func() ([]string, string, error) {
		t.Error("a whole ID was looked up")
		return nil, "", nil
	}, same)
	if got != whole || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// TestPages: reading ends at the last page, at the bound, and at a service that
// sends the same key again.
func TestPages(t *testing.T) {
	for _, tt := range []struct {
		name     string
		next     func(page int) string
		size     int
		n, pages int
		rest     string
	}{
		{"three pages", func(p int) string { return []string{"a", "b", ""}[p] }, 5, 15, 3, ""},
		{"no end", func(p int) string { return fmt.Sprint(p) }, 4000, 12_000, 3, "2"},
		{"the same again", func(int) string { return "a" }, 5, 10, 2, "a"},
	} {
		page := 0
		var asked []string
		all, rest, err := readPages(func(after string) ([]int, string, error) {
			asked = append(asked, after)
			page++
			return make([]int, tt.size), tt.next(page - 1), nil
		})
		if err != nil || len(all) != tt.n || page != tt.pages || rest != tt.rest ||
			!slices.Equal(asked[:2], []string{"", tt.next(0)}) {
			t.Errorf("%s: %d things of %d pages, rest %q, asked %q, %v", tt.name, len(all), page, rest, asked, err)
		}
	}
}
