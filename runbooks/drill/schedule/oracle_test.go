package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// zoneSpan is a stretch of time in which a zone does something odd.
type zoneSpan struct {
	zone  string
	from  string // a date
	hours int
}

var oddSpans = []zoneSpan{
	{"UTC", "2026-02-26", 72},
	{"America/New_York", "2026-03-06", 72}, {"America/New_York", "2026-10-30", 72},
	{"Europe/London", "2026-03-27", 72}, {"Europe/London", "2026-10-23", 72},
	{"Australia/Lord_Howe", "2026-04-03", 72}, {"Australia/Lord_Howe", "2026-10-02", 72}, // by half an hour
	{"America/Sao_Paulo", "2018-02-16", 72}, {"America/Sao_Paulo", "2018-11-02", 72}, // at midnight
	{"Asia/Kathmandu", "2026-12-30", 72},
	{"Pacific/Apia", "2011-12-28", 72},                                     // a day that is not
	{"Africa/Cairo", "2010-08-09", 72}, {"Africa/Cairo", "2010-09-08", 72}, // four times in a year
}

// minutes is a span, minute by minute: the oracle's calendar.
type minutes struct {
	loc *time.Location
	all []minute
}

type minute struct {
	wallFields
	at    time.Time
	local int  // what a clock on the wall shows, in minutes, as if it were UTC
	again bool // it shows that once more later
}

func (m *minute) occurrence() Occurrence { return Occurrence{At: m.at, Nominal: named(m.local)} }

func named(local int) time.Time { return time.Unix(int64(local)*60, 0).UTC() }

// wallFields is a minute of a clock and a calendar on the wall.
type wallFields struct{ minute, hour, day, month, weekday int }

func wallFieldsAt(t time.Time) wallFields {
	return wallFields{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())}
}

func (z zoneSpan) minutes(t *testing.T) minutes {
	t.Helper()
	loc, err := time.LoadLocation(z.zone)
	if err != nil {
		t.Fatal(err)
	}
	from, err := time.ParseInLocation(time.DateOnly, z.from, loc)
	if err != nil {
		t.Fatal(err)
	}
	m := minutes{loc: loc}
	for i := range z.hours * 60 {
		at := from.UTC().Add(time.Duration(i) * time.Minute)
		clock, err := time.Parse(time.DateTime, at.In(loc).Format(time.DateTime))
		if err != nil {
			t.Fatal(err)
		}
		m.all = append(m.all, minute{wallFields: wallFieldsAt(clock), at: at, local: int(clock.Unix() / 60)})
	}
	later := make(map[int]bool)
	for i := range slices.Backward(m.all) {
		now := &m.all[i]
		now.again = later[now.local]
		later[now.local] = true
	}
	return m
}

// fields is a schedule as a person would draw it: what is ticked in each field.
type fields struct {
	text               string
	ticked             [5][60]bool
	anyDate, anyOfWeek bool
	openMinutes        bool // they begin with *
}

// hourly says whether every hour is ticked.
func (f *fields) hourly() bool { return !slices.Contains(f.ticked[1][:24], false) }

func (f *fields) match(t *wallFields) bool {
	if !f.ticked[0][t.minute] || !f.ticked[1][t.hour] || !f.ticked[3][t.month] {
		return false
	}
	date, ofWeek := f.ticked[2][t.day], f.ticked[4][t.weekday]
	if f.anyDate || f.anyOfWeek {
		return date && ofWeek
	}
	return date || ofWeek
}

// walk steps through a span and says when the schedule is due after one of its
// minutes. Everything that the
// clock has come to, or jumped over, for the first time is due now; and what goes on
// in a repeated hour, whenever the clock shows it.
func (f *fields) walk(m minutes, after, most int) []Occurrence {
	var due []Occurrence
	latest := m.all[0].local
	hourly := f.hourly()
	through := hourly || f.openMinutes
	for i := 1; i < len(m.all) && len(due) < most; i++ {
		now := &m.all[i]
		over := now.local - latest // 1, but where the clocks are changed
		if over > 0 || through {
			latest = now.local
		}
		switch {
		case i <= after:
		case over <= 0 && !through: // it has been
		case f.match(&now.wallFields):
			o := now.occurrence()
			o.Repeated = now.again && !through
			due = append(due, o)
		case over > 1 && !hourly:
			for skipped := now.local - over + 1; skipped < now.local; skipped++ {
				if shown := wallFieldsAt(named(skipped)); f.match(&shown) {
					due = append(due, Occurrence{At: now.at, Nominal: named(skipped), Shifted: true})
					break
				}
			}
		}
	}
	return due
}

var (
	lows   = [5]int{0, 0, 1, 1, 0}
	highs  = [5]int{59, 23, 31, 12, 6}
	months = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	days   = strings.Fields("sun mon tue wed thu fri sat")
)

// generate makes a schedule, its text and its ticks independently of the parser.
func generate(r *rand.Rand) fields {
	var f fields
	var texts []string
	for i := range 5 {
		var items []string
		for range 1 + r.IntN(4)/3 + r.IntN(4)/3 {
			text, every := f.item(r, i)
			items = append(items, text)
			f.anyDate = f.anyDate || i == 2 && every
			f.anyOfWeek = f.anyOfWeek || i == 4 && every
		}
		texts = append(texts, strings.Join(items, ","))
	}
	f.text = strings.Join(texts, " ")
	f.openMinutes = strings.HasPrefix(f.text, "*")
	return f
}

// item ticks some of a field. Fields of the day are mostly left open, so that
// something happens in a short span; and hours are mostly those of the night.
func (f *fields) item(r *rand.Rand, i int) (text string, every bool) {
	low, high := lows[i], highs[i]
	span := high - low + 1
	from := low + r.IntN(span)
	if i == 1 && r.IntN(2) == 0 {
		from = r.IntN(5)
	}
	to, step := from, 1
	pick := r.IntN(6)
	if i >= 2 && r.IntN(3) > 0 {
		pick = 0
	}
	switch pick {
	case 0:
		from, to, text, every = low, high, "*", true
	case 1:
		from, to, step = low, high, 2+r.IntN(span-2)
		text = "*/" + strconv.Itoa(step)
	case 2:
		to = from + r.IntN(high-from+1)
		text = f.name(r, i, from) + "-" + f.name(r, i, to)
	case 3:
		to, step = from+r.IntN(high-from+1), 1+r.IntN(span-1)
		text = fmt.Sprintf("%d-%d/%d", from, to, step)
	case 4:
		to, step = high, 1+r.IntN(span-1)
		text = fmt.Sprintf("%d/%d", from, step)
	default:
		text = f.name(r, i, from)
	}
	for n := from; n <= to; n += step {
		f.ticked[i][n] = true
	}
	return text, every
}

func (f *fields) name(r *rand.Rand, i, n int) string {
	switch {
	case i == 3 && r.IntN(2) == 0:
		return months[n-1]
	case i == 4 && r.IntN(2) == 0:
		return strings.ToUpper(days[n])
	case r.IntN(8) == 0 && n < 10:
		return "0" + strconv.Itoa(n)
	default:
		return strconv.Itoa(n)
	}
}

// 10,000 schedules agree with stepping through the minutes, over every kind of
// clock change.
func TestScheduleMatchesOracle(t *testing.T) {
	const most = 10
	var spans []minutes
	for _, z := range oddSpans {
		spans = append(spans, z.minutes(t))
	}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for n := range 10_000 {
		f := generate(r)
		m := spans[n%len(spans)]
		s, err := ParseSchedule(f.text, m.loc.String())
		if err != nil {
			if !strings.Contains(err.Error(), "never comes") || f.matchesEver() {
				t.Fatalf("%q: %v", f.text, err)
			}
			seen["never"]++
			continue
		}
		start := r.IntN(len(m.all) * 2 / 3)
		want := f.walk(m, start, most)
		got := s.NextN(m.all[start].at, len(want))
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%q in %s: occurrence %d is %+v, want %+v", f.text, m.loc, i, got[i], want[i])
			}
			seen["all"]++
			if want[i].Shifted {
				seen["shifted"]++
			}
			if want[i].Repeated {
				seen["repeated"]++
			}
			if i > 0 && !want[i].Nominal.After(want[i-1].Nominal) {
				seen["again"]++
			}
		}
		if len(want) < most { // the rest of the span is empty
			after := m.all[start].at
			if len(want) > 0 {
				after = want[len(want)-1].At
			}
			if o, ok := s.Next(after); !ok || !o.At.After(m.all[len(m.all)-1].at) {
				t.Fatalf("%q in %s: %+v, %t, want one beyond the span", f.text, m.loc, o, ok)
			}
		}
	}
	for what, least := range map[string]int{"all": 30_000, "shifted": 100, "repeated": 100, "again": 50} {
		if seen[what] < least {
			t.Errorf("%d %s: the oracle has seen too little, %v", seen[what], what, seen)
		}
	}
}

// matchesEver looks through eight years, by day.
func (f *fields) matchesEver() bool {
	for day := range 8*365 + 3 {
		d := time.Date(2000, 1, 1+day, 0, 0, 0, 0, time.UTC)
		date, ofWeek := f.ticked[2][d.Day()], f.ticked[4][int(d.Weekday())]
		both := date && ofWeek || !f.anyDate && !f.anyOfWeek && (date || ofWeek)
		if f.ticked[3][int(d.Month())] && both {
			return true
		}
	}
	return false
}
