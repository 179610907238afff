package schedule

import (
	"strings"
	"testing"
	"time"
)

func mustSchedule(t testing.TB, text, zone string) Schedule {
	t.Helper()
	s, err := ParseSchedule(text, zone)
	if err != nil {
		t.Fatalf("%q in %q: %v", text, zone, err)
	}
	return s
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

func TestNext(t *testing.T) {
	tests := []struct {
		name, schedule, zone, after, want, note string
	}{
		{"mondays", "0 3 * * 1", "", "2026-11-29T12:00:00Z", "2026-11-30T03:00:00Z", ""},
		{"not the same moment again", "0 3 * * 1", "", "2026-11-30T03:00:00Z", "2026-12-07T03:00:00Z", ""},
		{"within the minute", "0 3 * * 1", "", "2026-11-30T02:59:59.999Z", "2026-11-30T03:00:00Z", ""},
		{"in a zone", "0 3 * * 1", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-06T01:00:00Z", ""},
		{"either day", "0 3 13 * 5", "", "2026-11-08T00:00:00Z", "2026-11-13T03:00:00Z", ""},
		{"a step restricts", "0 3 */2 * 1", "", "2026-11-30T04:00:00Z", "2026-12-01T03:00:00Z", ""},
		{"leap day", "0 3 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T03:00:00Z", ""},
		{"weekly", "@weekly", "", "2026-11-30T00:00:00Z", "2026-12-06T00:00:00Z", ""},
		{"every", "@every 36h", "", "2026-11-30T00:00:01Z", "2026-12-01T12:00:01Z", ""},
		{"clocks forward", "30 2 * * 0", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z",
			"the clocks go forward over 02:30, so it runs at 03:00"},
		{"and the day after", "30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", ""},
		{"several of them are one", "*/20 2 * * 0", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-04-05T00:00:00Z", ""},
		{"a natural one is not shifted", "*/15 * * * *", "Europe/Berlin", "2026-03-29T00:45:00Z", "2026-03-29T01:00:00Z", ""},
		{"clocks back", "30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z",
			"the clocks go back over 01:30, so it runs the first time"},
		{"not the second time", "30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z", ""},
		{"asked in between", "30 1 * * *", "America/New_York", "2026-11-01T06:10:00Z", "2026-11-02T06:30:00Z", ""},
		{"half an hour back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-04T14:45:00Z",
			"the clocks go back over 01:45, so it runs the first time"},
		{"it goes on in a repeated hour", "*/20 * * * *", "America/New_York", "2026-11-01T05:40:00Z", "2026-11-01T06:00:00Z", ""},
		{"so does every hour", "30 * * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", ""},
		{"every hour makes up for none", "30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", ""},
		{"steps of an hour that is not", "*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z",
			"the clocks go forward over 02:00, so it runs at 03:00"},
		{"midnight that is not", "0 0 4 11 *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z",
			"the clocks go forward over 00:00, so it runs at 01:00"},
		{"a day that is not", "0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-30T10:00:00Z",
			"the clocks go forward over 12:00, so it runs at 00:00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustSchedule(t, tt.schedule, tt.zone)
			got, ok := s.Next(instant(t, tt.after))
			if !ok || !got.At.Equal(instant(t, tt.want)) || got.At.Location() != time.UTC {
				t.Errorf("%v, %t, want %s", got.At, ok, tt.want)
			}
			if note := got.ClockChangeNote(s.Location()); note != tt.note {
				t.Errorf("note %q, want %q", note, tt.note)
			}
		})
	}
}

func TestNextNAndPeriod(t *testing.T) {
	s := mustSchedule(t, "0 3 * * 1", "")
	five := s.NextN(instant(t, "2026-11-30T00:00:00Z"), 5)
	if len(five) != 5 || !five[4].At.Equal(instant(t, "2026-12-28T03:00:00Z")) {
		t.Errorf("%v", five)
	}
	if p := s.Period(five[0].At); p != 7*24*time.Hour {
		t.Errorf("period %v", p)
	}
	var never Schedule
	if got := never.NextN(five[0].At, 5); got != nil || never.Period(five[0].At) != 0 {
		t.Errorf("%v of no schedule", got)
	}
}

// Each of these has made another scheduler crash, or run at an unwanted
// time.
func TestParseScheduleRefuses(t *testing.T) {
	tests := []struct{ schedule, zone, want string }{
		{"", "", "is empty: want five fields"},
		{"TZ=0", "", "the zone is a separate setting"},
		{"TZ=UTC 0 3 * * 1", "", "the zone is a separate setting"},
		{"CRON_TZ=UTC", "", "the zone is a separate setting"},
		{"CRON_TZ= * * * * *", "", "the zone is a separate setting"},
		{"0 0 30 2 *", "", "never comes"},
		{"0 0 31 4,6 *", "", "never comes"},
		{", * * * *", "", "nothing beside a comma"},
		{"0, * * * *", "", "nothing beside a comma"},
		{"*-5 * * * *", "", "want a range between two values"},
		{"0 0 3 * * 1", "", "has 6 fields: want five"},
		{"0 3 * *", "", "has 4 fields: want five"},
		{"0 3 * * 7", "", "Sunday is 0"},
		{"0 3 * * 5-7", "", "Sunday is 0"},
		{"0 3 * * FRI-MON", "", "FRI,SAT,SUN,MON"},
		{"0 3 L * *", "", "are not known here"},
		{"0 3 15W * *", "", "are not known here"},
		{"0 3 * * 5#3", "", "are not known here"},
		{"0 3 ? * 1", "", "want * where"},
		{"*/90 * * * *", "", "a step must be 1 to 59"},
		{"*/0 * * * *", "", "a step must be 1 to 59"},
		{"60 3 * * *", "", "above maximum"},
		{"0 3 0 * *", "", "below minimum"},
		{"0 5-3 * * *", "", "beyond end of range"},
		{"mon 3 * * *", "", "has no names"},
		{"0 3 * foo *", "", "want five fields"},
		{"0 3 * * 1-5-6", "", "want *, a value"},
		{"@every 5s", "", "want at least 1m0s"},
		{"@every 0s", "", "want at least 1m0s"},
		{"@every -5m", "", "want at least 1m0s"},
		{"@every 90000h", "", "at most 8784h"},
		{"@every 90.5s", "", "whole seconds"},
		{"@every", "", "want a duration after it"},
		{"@every 1h", "Europe/Berlin", "has no zone"},
		{"@reboot", "", "unknown name"},
		{"0 3 * * 1", "Mars/Olympus", "want a name such as Europe/Berlin"},
		{"0 3 * * 1", "Local", "unknown zone"},
		{"0 3 * * 1", "../../etc/passwd", "unknown zone"},
		{strings.Repeat("1", 300), "", "at most 200"},
	}
	for _, tt := range tests {
		if s, err := ParseSchedule(tt.schedule, tt.zone); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q in %q: %v, %v; want %q", tt.schedule, tt.zone, s, err, tt.want)
		}
	}
}

func TestScheduleNormalizesSpaces(t *testing.T) {
	got := mustSchedule(t, "  0  3 * *\t1 ", "Europe/Berlin")
	if got.text != "0 3 * * 1" || got.zone != "Europe/Berlin" || got.Location().String() != "Europe/Berlin" {
		t.Errorf("%q in %q (%v)", got.text, got.zone, got.Location())
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, seed := range []string{"0 3 * * 1", "TZ=0", ", * * * *", "*/5 1-3,9 29 feb sun", "@every 1h", "@daily", "0 0 30 2 *", "*-5 * * * L"} {
		f.Add(seed, "Europe/London")
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text, zone string) {
		s, err := ParseSchedule(text, zone)
		if err != nil {
			return
		}
		two := s.NextN(from, 2)
		if len(two) != 2 || !two[0].At.After(from) || !two[1].At.After(two[0].At) {
			t.Errorf("%q in %q: %v", text, zone, two)
		}
		again := mustSchedule(t, s.text, s.zone)
		if o, _ := again.Next(from); o != two[0] {
			t.Errorf("%q read again: %v, was %v", s.text, o, two[0])
		}
	})
}
