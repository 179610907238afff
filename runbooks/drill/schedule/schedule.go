package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	maxSchedule = 200 // bytes
	minEvery    = time.Minute
	maxEvery    = 366 * 24 * time.Hour
)

// Schedule says when a drill is due. The zero value is one that never is. It never
// changes.
//
// It is written as cron has it: minute, hour, day of the month, month, day of the
// week (Sunday is 0), in a zone; or as @hourly, @daily, @weekly, @monthly, @yearly,
// or @every and a duration of at least a minute. When both days are restricted,
// either is enough: 0 3 13 * 5 is every 13th and every Friday. A step restricts
// too: */2 is every other day, not every day.
//
// Each time that it names comes once on every date of the zone. When the clocks go
// forward over it, it comes at the first moment after; when they go back over it,
// it comes the first time. One that names every hour, or begins with * as */5 does,
// goes on while the clocks show an hour again, as cron has it; and one of every hour
// makes up for nothing that they go over, since its next hour comes at once. @every
// counts time that passes, and knows no clocks.
type Schedule struct {
	text  string
	zone  string
	loc   *time.Location
	cron  *cron.SpecSchedule // nil: every
	every time.Duration      // 0: cron
	// hourly: it names every hour. through: it goes on in a repeated hour.
	hourly, runsInRepeatedHour bool
}

var fieldNames = [...]string{"minute", "hour", "day of the month", "month", "day of the week"}

// ParseSchedule reads a schedule. The error says what would be right.
func ParseSchedule(text, zone string) (Schedule, error) {
	if len(text) > maxSchedule {
		return Schedule{}, fmt.Errorf("is %d bytes long: at most %d are read", len(text), maxSchedule)
	}
	loc, err := ParseZone(zone)
	if err != nil {
		return Schedule{}, err
	}
	s := Schedule{text: strings.Join(strings.Fields(text), " "), zone: loc.String(), loc: loc}
	switch {
	case s.text == "":
		return Schedule{}, errors.New("is empty: want five fields such as 0 3 * * 1, Mondays at 03:00")
	case strings.HasPrefix(s.text, "TZ=") || strings.HasPrefix(s.text, "CRON_TZ="):
		return Schedule{}, errors.New("begins with a zone: the zone is a separate setting")
	case strings.HasPrefix(s.text, "@every"):
		s.every, err = parseEvery(s.text, zone)
		return s, err
	case strings.HasPrefix(s.text, "@"):
		s.cron, err = parseName(s.text)
	default:
		s.cron, err = parseFields(s.text)
	}
	if err != nil {
		return Schedule{}, err
	}
	s.cron.Location = loc
	s.hourly = s.cron.Hour&^starBit == 1<<24-1
	s.runsInRepeatedHour = s.hourly || strings.HasPrefix(s.text, "*")
	if !s.everFires() {
		return Schedule{}, errors.New("never comes: no month has such a day")
	}
	return s, nil
}

// ParseZone reads the name of a zone; empty is UTC.
func ParseZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("unknown zone %.60q: want a name such as Europe/Berlin, or UTC", name)
	}
	return loc, nil
}

func parseEvery(text, zone string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimPrefix(text, "@every "))
	switch {
	case err != nil:
		return 0, errors.New("@every: want a duration after it, such as @every 12h")
	case d < minEvery || d > maxEvery:
		return 0, fmt.Errorf("@every %v: want at least %v and at most %v", d, minEvery, maxEvery)
	case d%time.Second != 0:
		return 0, fmt.Errorf("@every %v: want whole seconds", d)
	case zone != "" && zone != "UTC":
		return 0, errors.New("@every counts time that passes and has no zone: take the zone away, or name a time of day")
	}
	return d, nil
}

var scheduleNames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func parseName(text string) (*cron.SpecSchedule, error) {
	fields, ok := scheduleNames[text]
	if !ok {
		return nil, fmt.Errorf("unknown name %.40q: want @hourly, @daily, @weekly, @monthly, @yearly or @every 12h", text)
	}
	return parseFields(fields)
}

// itemPattern is one part of a field: a value, a range or all, with a step.
var itemPattern = regexp.MustCompile(`^(\*|[0-9]{1,2}|[A-Za-z]{3})(-([0-9]{1,2}|[A-Za-z]{3}))?(/([0-9]{1,2}))?$`)

func parseFields(text string) (*cron.SpecSchedule, error) {
	fields := strings.Split(text, " ")
	if len(fields) != len(fieldNames) {
		return nil, fmt.Errorf("has %d fields: want five (minute, hour, day of the month, month, day of the week), such as 0 3 * * 1", len(fields))
	}
	for i, f := range fields {
		for part := range strings.SplitSeq(f, ",") {
			if why := lintItem(part, i); why != "" {
				return nil, fmt.Errorf("%s %.40q: %s", fieldNames[i], f, why)
			}
		}
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: want five fields such as 0 3 * * 1, Mondays at 03:00", err)
	}
	return parsed.(*cron.SpecSchedule), nil // the parser's only kind without names
}

// lintItem refuses what other crons know and the parser does not, and what it would
// read as something else.
func lintItem(part string, field int) string {
	m := itemPattern.FindStringSubmatch(part)
	switch {
	case part == "":
		return "has nothing beside a comma"
	case part == "?":
		return "want * where anything will do"
	case strings.ContainsAny(part, "LW#"):
		if m == nil {
			return "L, W and # are not known here: want numbers, ranges and steps"
		}
	case m == nil:
		return "want *, a value, a range such as 1-5, or a step such as */15"
	}
	switch {
	case m[1] == "*" && m[2] != "":
		return "want a range between two values"
	case field == 4 && (m[1] == "7" || m[3] == "7"):
		return "Sunday is 0"
	case field == 4 && backwards(m[1], m[3]):
		return "a range cannot go over the end of the week: want the days one by one, such as FRI,SAT,SUN,MON"
	case field != 3 && field != 4 && strings.ContainsAny(m[1]+m[3], letters):
		return "has no names: want numbers"
	}
	return checkStep(m[5], field)
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

const week = "sunmontuewedthufrisat"

// backwards tells whether a range of days named by letters ends before it begins.
func backwards(from, to string) bool {
	a, b := strings.Index(week, strings.ToLower(from)), strings.Index(week, strings.ToLower(to))
	return len(from) == 3 && len(to) == 3 && a >= 0 && b >= 0 && b < a
}

// checkStep refuses a step that goes beyond its field: */90 is not every 90 minutes.
func checkStep(step string, field int) string {
	span := [...]int{60, 24, 31, 12, 7}[field]
	var n int
	if step == "" {
		return ""
	}
	if _, err := fmt.Sscanf(step, "%d", &n); err != nil || n < 1 || n >= span {
		return fmt.Sprintf("a step must be 1 to %d; for longer ones there is @every", span-1)
	}
	return ""
}

// String returns what was parsed, with its zone.
func (s Schedule) String() string {
	if s.every > 0 || s.text == "" {
		return s.text
	}
	return s.text + " " + s.zone
}

// Location returns the zone.
func (s Schedule) Location() *time.Location { return s.loc }
