package ui

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"headgate/engine/tsdb"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func testPoints(values ...float64) []tsdb.Point {
	var all []tsdb.Point
	for i, v := range values {
		if !math.IsNaN(v) {
			all = append(all, tsdb.Point{At: noon.Add(time.Duration(i) * time.Minute), V: v})
		}
	}
	return all
}

func newTestChart(values ...float64) chart {
	return chart{
		ID: "c", Title: "Turnaround <p95>", Unit: "s", From: noon, To: noon.Add(time.Duration(len(values)-1) * time.Minute), Step: time.Minute,
		Lines: []chartLine{{"p95", testPoints(values...)}}, Limit: &chartLimit{V: 60, Name: "promise 60 s"},
	}
}

// TestPictureIsWellFormed: whatever the values, it is XML with finite numbers, and
// within its frame.
func TestPictureIsWellFormed(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]chart{
		"usual": newTestChart(10, 20, 70, 30), "flat": newTestChart(0, 0, 0), "one": newTestChart(5), "none": newTestChart(),
		"huge": newTestChart(1e12, 3), "tiny": newTestChart(1e-9, 0), "negative": newTestChart(-5, 10), "gaps": newTestChart(1, nan, nan, nan, 4, 5, nan, nan, nan, 9),
		"all gaps": newTestChart(nan, nan),
	} {
		text := string(c.Picture())
		dec := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "style") || strings.Contains(text, "<p95>") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestGapsBreakTheLine: what was not measured is not drawn.
func TestGapsBreakTheLine(t *testing.T) {
	nan := math.NaN()
	for want, values := range map[int][]float64{
		1: {1, 2, 3, 4}, 2: {1, 2, nan, nan, 3, 4}, 3: {1, nan, nan, 2, nan, nan, 3},
	} {
		text := string(newTestChart(values...).Picture())
		_, rest, ok := strings.Cut(text, `class="line l1" d="`)
		path, _, _ := strings.Cut(rest, `"`)
		if got := strings.Count(path, "M"); !ok || got != want {
			t.Errorf("%v: %d pieces, want %d: %s", values, got, want, path)
		}
	}
}

func TestDescriptionSaysWhatThePictureShows(t *testing.T) {
	c := newTestChart(10, 20, 70, 30)
	c.Bands = []band{{From: noon, Mode: "enforce"}, {From: noon.Add(2 * time.Minute), Mode: "passthrough", Begins: true}}
	got := c.Describe()
	for _, want := range []string{"From 12:00 to 12:03 UTC", "at most 70 s, at 12:02:00", "in the end 30 s", "promise 60 s", "To Pass-through at 12:02:00"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if c.Latest() != "30 s" {
		t.Errorf("latest %q", c.Latest())
	}
	c.To = noon.Add(time.Hour)
	if c.Latest() != dash {
		t.Errorf("an old value is shown as the latest: %q", c.Latest())
	}
}

// TestTableHasTheHighest: short peaks are in the table too.
func TestTableHasTheHighest(t *testing.T) {
	values := make([]float64, 61)
	values[33] = 99
	rows := newTestChart(values...).Rows()
	if len(rows) != tableRows {
		t.Fatalf("%d rows", len(rows))
	}
	found := 0
	for _, r := range rows {
		if r.Values[0] == "99 s" {
			found++
			if r.At != noon.Add(35*time.Minute) {
				t.Errorf("the peak stands at %s", r.At)
			}
		}
	}
	if found != 1 || !rows[0].At.After(rows[1].At) {
		t.Errorf("rows: %v", rows)
	}
}

func TestAxesAreRound(t *testing.T) {
	for top, want := range map[float64]string{
		0: "[0 0.5 1]", 0.9: "[0 0.5 1]", 1: "[0 0.5 1]", 4.6: "[0 2 4 6]", 9.2: "[0 5 10]", 60: "[0 20 40 60]", 69: "[0 20 40 60 80]", 212: "[0 50 100 150 200 250]", 3000: "[0 900 1800 2700 3600]",
		16000: "[0 3600 7200 10800 14400 18000]",
	} {
		if got := fmt.Sprint(newAxis(top, "s").ticks); got != want {
			t.Errorf("up to %v: %s, want %s", top, got, want)
		}
	}
	for _, unit := range []string{"s", "ratio", "tasks"} {
		for top := 0.001; top < 1e9; top *= 1.37 {
			a := newAxis(top, unit)
			if a.max < top || len(a.ticks) < 2 || len(a.ticks) > 7 {
				t.Errorf("up to %v %s: %v", top, unit, a.ticks)
			}
			for _, tick := range a.ticks {
				// There is no more room beside the chart.
				if label := a.label(tick); unit == "s" && top < 1e6 && len([]rune(label)) > 7 {
					t.Errorf("up to %v %s: a tick says %q", top, unit, label)
				}
			}
			if unit == "tasks" && a.ticks[1] != math.Trunc(a.ticks[1]) {
				t.Errorf("up to %v: parts of tasks: %v", top, a.ticks)
			}
		}
	}
}

func TestTimeTicksFit(t *testing.T) {
	for _, w := range windows() {
		ticks := timeTicks(noon.Add(-w.Length+17*time.Second), noon.Add(17*time.Second))
		if len(ticks) < 3 || len(ticks) > 6 {
			t.Errorf("%s: %v", w.Name, ticks)
		}
	}
}

func TestBandsFollowChanges(t *testing.T) {
	change := func(at time.Time, from, to admission.Mode) control.ModeChange {
		return control.ModeChange{At: at, From: from, To: to, Action: control.SetMode}
	}
	from, to := noon, noon.Add(time.Hour)
	got := modeBands([]control.ModeChange{
		change(noon.Add(10*time.Minute), admission.Observe, admission.Enforce), change(noon.Add(20*time.Minute), admission.Enforce, admission.PassThrough),
		change(noon.Add(2*time.Hour), admission.PassThrough, admission.Enforce),
	}, control.PoolStatus{Mode: "passthrough"}, from, to)
	want := []band{
		{From: from, To: noon.Add(10 * time.Minute), Mode: "observe"},
		{From: noon.Add(10 * time.Minute), To: noon.Add(20 * time.Minute), Mode: "enforce", Begins: true},
		{From: noon.Add(20 * time.Minute), To: to, Mode: "passthrough", Begins: true},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := modeBands(nil, control.PoolStatus{Mode: "observe"}, from, to); len(got) != 1 || got[0].Mode != "observe" || got[0].Begins {
		t.Errorf("without changes: %v", got)
	}
}

// TestLabelsDoNotOverlap: of many changes at once only some are labelled; all are
// marked.
func TestLabelsDoNotOverlap(t *testing.T) {
	c := newTestChart(make([]float64, 61)...)
	for i := range 20 {
		c.Bands = append(c.Bands, band{From: noon.Add(time.Duration(i) * time.Minute), To: noon.Add(time.Duration(i+1) * time.Minute), Mode: "observe", Begins: true})
	}
	text := string(c.Picture())
	if marks, labels := strings.Count(text, `<path class="change"`), strings.Count(text, `<text class="change"`); marks != 20 || labels == 0 || labels > 4 {
		t.Errorf("%d marks, %d labels", marks, labels)
	}
}
