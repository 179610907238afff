package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	maxSchedule = 200 // bytes
	minEvery    = time.Minute
	maxEvery    = 366 * 24 * time.Hour
)

// Schedule says when a drill is due. Its zero value never is. It is immutable.
//
// It is written as in cron: minute, hour, day of the month, month, day of the week (Sunday is 0), in a zone; or as
// @hourly, @daily, @weekly, @monthly, @yearly, or @every and a duration of at least a minute. If both days are
// restricted, either is enough: 0 3 13 * 5 is every 13th and every Friday. A step restricts too: */2 is every other
// day, not every day.
//
// Each time that it names occurs once on every date of the zone. If the clocks go forward over it, it occurs at the
// first moment after; if they go back over it, it occurs the first time only. A schedule that names every hour, or
// begins with * as */5 does, also runs in a repeated hour, as in cron; and one of every hour does not make up for a
// skipped hour, since its next hour follows at once. @every counts elapsed time, whatever the clocks show.
type Schedule struct {
	text  string
	zone  string
	loc   *time.Location
	cron  *cron.SpecSchedule // nil: every
	every time.Duration      // 0: cron
	// hourly: it names every hour. runsInRepeatedHour: also when the clocks show an hour again.
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
	default:
		s.cron, err = parseFields(s.text)
	}
	if err != nil {
		return Schedule{}, err
	}
	s.hourly = s.cron.Hour&everyHour == everyHour
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

// itemPattern is one part of a field: a value, a range or all, with a step.
var itemPattern = regexp.MustCompile(`^(\*|[0-9]{1,2}|[A-Za-z]{3})(-([0-9]{1,2}|[A-Za-z]{3}))?(/([0-9]{1,2}))?$`)

// everyHour are the bits of all hours.
const everyHour = 1<<24 - 1

// parseFields reads five fields, or a name such as @daily. The result names times on a calendar without zones.
func parseFields(text string) (*cron.SpecSchedule, error) {
	named := strings.HasPrefix(text, "@")
	if !named {
		if err := lint(strings.Split(text, " ")); err != nil {
			return nil, err
		}
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(text)
	switch {
	case err != nil && named:
		return nil, fmt.Errorf("unknown name %.40q: want @hourly, @daily, @weekly, @monthly, @yearly or @every 12h", text)
	case err != nil:
		return nil, fmt.Errorf("%w: want five fields such as 0 3 * * 1, Mondays at 03:00", err)
	}
	fields := parsed.(*cron.SpecSchedule) // the parser's only kind, but for @every
	fields.Location = time.UTC
	return fields, nil
}

// lint refuses fields that other crons read and the parser does not, and those that it would read as something else.
func lint(fields []string) error {
	if len(fields) != len(fieldNames) {
		return fmt.Errorf("has %d fields: want five (%s), such as 0 3 * * 1",
			len(fields), strings.Join(fieldNames[:], ", "))
	}
	for i, f := range fields {
		for part := range strings.SplitSeq(f, ",") {
			if why := lintItem(part, i); why != "" {
				return fmt.Errorf("%s %.40q: %s", fieldNames[i], f, why)
			}
		}
	}
	return nil
}

// lintItem says what is wrong with a part of a field; empty: nothing.
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

// backwards says whether a range of days named by letters ends before it begins.
func backwards(from, to string) bool {
	a, b := strings.Index(week, strings.ToLower(from)), strings.Index(week, strings.ToLower(to))
	return len(from) == 3 && len(to) == 3 && a >= 0 && b >= 0 && b < a
}

// checkStep refuses a step that goes beyond its field: */90 is not every 90 minutes.
func checkStep(step string, field int) string {
	most := [...]int{60, 24, 31, 12, 7}[field] - 1
	if n, _ := strconv.Atoi(step); step != "" && (n < 1 || n > most) {
		return fmt.Sprintf("a step must be 1 to %d; for longer ones there is @every", most)
	}
	return ""
}

// Location returns the zone.
func (s Schedule) Location() *time.Location { return s.loc }
