package ui

import (
	"net/http"
	"time"
)

// windowView is the time that charts show.
type windowView struct {
	Name    string // in the address
	Long    string // for people
	Length  time.Duration
	Step    time.Duration
	Choices []windowChoice
}

type windowChoice struct {
	Name, Long string
	Current    bool
}

// pointsPerLine is how many points a line of a chart has, at most one more.
const pointsPerLine = 120

// windows are those that can be chosen; the first one counts if none is.
var windows = []struct {
	name, long string
	length     time.Duration
}{
	{"1h", "1 hour", time.Hour}, {"15m", "15 minutes", 15 * time.Minute}, {"6h", "6 hours", 6 * time.Hour}, {"24h", "24 hours", 24 * time.Hour},
}

func windowOf(r *http.Request) windowView {
	asked := r.URL.Query().Get("last")
	chosen := 0
	for i, w := range windows {
		if w.name == asked {
			chosen = i
		}
	}
	v := windowView{Name: windows[chosen].name, Long: windows[chosen].long, Length: windows[chosen].length}
	v.Step = v.Length / pointsPerLine
	for _, i := range []int{1, 0, 2, 3} {
		v.Choices = append(v.Choices, windowChoice{windows[i].name, windows[i].long, i == chosen})
	}
	return v
}
