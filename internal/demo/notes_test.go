package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// a side of which so many were answered.
func side(arrivals, refused, inTime, late int, p95 float64) Side {
	return Side{
		Arrivals: arrivals, Refused: refused, Admitted: arrivals - refused, InTime: inTime, Late: late,
		Turnaround: Quantiles{Count: inTime + late, P95: p95}, MaxQueue: 9, KeptRate: true,
	}
}

func TestNotesSayWhatTheNumbersSay(t *testing.T) {
	expired := side(100, 20, 70, 2, 61)
	expired.DeadlinePassed = 8
	stuck := side(100, 0, 10, 30, 300)
	stuck.Unfinished, stuck.UnfinishedOver = 60, 50
	busy := side(100, 0, 50, 0, 41)
	busy.Unfinished = 50
	slow := side(10, 0, 10, 0, 9)
	slow.KeptRate, slow.RateNote = false, "send lag"
	for _, c := range []struct {
		name    string
		summary Summary
		want    []string
	}{
		{"the gate holds", Summary{Outcome: Complete, Gated: side(100, 20, 80, 0, 51), Ungated: side(100, 0, 50, 50, 120)}, []string{
			"With the gate, 20 of 100 (20 %) were refused at once, and the p95 turnaround of what was let in stayed within the SLO: 51 of 60 s.",
			"Without it the same arrivals made a queue of up to 9, and 50 of 100 (50 %) were over the SLO (p95 120 s).",
			"Answered in time: 80 with the gate, 50 without.",
		}},
		{"nothing happened", Summary{Outcome: Complete, Workers: 64, Gated: side(10, 0, 10, 0, 9), Ungated: side(10, 0, 10, 0, 9)}, []string{
			"There was nothing to refuse: with 64 workers everything came in time, and the gate stayed out of the way.",
		}},
		{"nothing had happened yet", Summary{Outcome: Interrupted, Elapsed: 50, Duration: 300, Gated: side(10, 0, 10, 0, 9), Ungated: side(10, 0, 10, 0, 9)}, []string{
			"Stopped after 50 of 300 s, so this is only part of the picture.",
			"Up to then nothing had been refused, and nothing was over the SLO.",
		}},
		{"stopped in the burst", Summary{Outcome: Interrupted, Elapsed: 200, Duration: 300, Gated: side(100, 20, 50, 0, 41), Ungated: busy}, []string{
			"Stopped after 200 of 300 s, so this is only part of the picture.",
			"With the gate, 20 of 100 (20 %) were refused at once, and the p95 turnaround of what was let in stayed within the SLO: 41 of 60 s.",
			"Without it the queue grew to 9, and nothing was over the SLO yet.",
		}},
		{"stopped at once", Summary{Outcome: Interrupted, Duration: 300}, []string{
			"Stopped after 0 of 300 s, so this is only part of the picture.",
			"Nothing had been answered yet.",
		}},
		{"the gate lets late work through", Summary{Outcome: Complete, Gated: expired, Ungated: side(100, 0, 5, 95, 900)}, []string{
			"With the gate, 20 of 100 (20 %) were refused at once, and the p95 turnaround of what was let in did not stay within the SLO: 61 s, with 60 s promised.",
			"Without it the same arrivals made a queue of up to 9, and 95 of 100 (95 %) were over the SLO (p95 900 s).",
			"Answered in time: 70 with the gate, 5 without.",
			"The gate let in 10 that came late or waited in vain (12 % of what it let in): its rule looks at the queue when a task arrives, and what is let in goes on ageing.",
		}},
		{"the gate refuses for nothing", Summary{Outcome: Complete, Gated: side(10, 1, 9, 0, 30), Ungated: side(10, 0, 10, 0, 55)}, []string{
			"With the gate, 1 of 10 (10 %) was refused at once, and the p95 turnaround of what was let in stayed within the SLO: 30 of 60 s.",
			"Without it the queue grew to 9 and everything still came in time.",
			"Fewer were answered in time with the gate (9) than without (10): refusing has its price when the overload is short.",
		}},
		{"too long a backlog", Summary{Outcome: DrainLimit, Elapsed: 2100, Gated: side(100, 60, 40, 0, 50), Ungated: stuck}, []string{
			"With the gate, 60 of 100 (60 %) were refused at once, and the p95 turnaround of what was let in stayed within the SLO: 50 of 60 s.",
			"Without it the same arrivals made a queue of up to 9, and 80 of 100 (80 %) were over the SLO (p95 300 s).",
			"Answered in time: 40 with the gate, 10 without.",
			"The backlog was not waited for to its end: 0 with the gate and 60 without were still open after 2100 s.",
		}},
		{"a slow machine", Summary{Outcome: Complete, Workers: 1, Gated: slow, Ungated: slow}, []string{
			"There was nothing to refuse: with 1 worker everything came in time, and the gate stayed out of the way.",
			"This machine did not keep the pace, so take the numbers with care: send lag.",
		}},
	} {
		c.summary.SLO = 60
		if diff := cmp.Diff(c.want, c.summary.notes()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestNotesOwnUpToFailures(t *testing.T) {
	s := Summary{Outcome: Complete, SLO: 60, Gated: side(10, 0, 9, 0, 9), Ungated: side(10, 0, 10, 0, 9)}
	s.Gated.Failed = 1
	notes := strings.Join(s.notes(), "\n")
	if !strings.Contains(notes, "1 call failed") || strings.Contains(notes, "nothing to refuse") {
		t.Errorf("a failed call is passed over:\n%s", notes)
	}
}
