package seed

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"headgate/runbooks/drill"
	"headgate/runbooks/drill/spec"
)

// lease is how long a run of the past holds the lock: it has ended before.
const lease = time.Minute

const day = 24 * time.Hour

// Fill writes runs of the last days into a store, and returns how many. A run of one
// of the drills is due on most days, another one on Mondays.
func Fill(ctx context.Context, store drill.Store, now time.Time, days int, seed uint64) (int, error) {
	specs, err := spec.BuiltIn()
	if err != nil {
		return 0, err
	}
	m := generator{random: rand.New(rand.NewPCG(seed, 1)), specs: specs}
	written := 0
	for n := days; n > 0; n-- {
		for _, r := range m.runsOn(now.UTC().Truncate(day).Add(-time.Duration(n) * day)) {
			if err := save(ctx, store, r); err != nil {
				return written, fmt.Errorf("run %d, of %s: %w", written, r.Drill, err)
			}
			written++
		}
	}
	return written, nil
}

func save(ctx context.Context, store drill.Store, r drill.Run) error {
	if r.Verdict == drill.Missed || r.Verdict == drill.Skipped {
		return store.RecordNotRun(ctx, r)
	}
	begun := r
	begun.Status, begun.Verdict, begun.Reason, begun.Ended = drill.Claimed, "", "", time.Time{}
	begun.Hypotheses, begun.Series, begun.Messages, begun.Reverts = nil, nil, nil, nil
	fence, err := store.Claim(ctx, r.Started, begun, lease)
	if err != nil {
		return err
	}
	r.Fence = fence
	return store.Save(ctx, r.Ended, r)
}

// generator makes runs up.
type generator struct {
	random *rand.Rand
	specs  []drill.Spec
	ids    uint64
}

// runsOn returns the runs of a day: one drill is due each day of the week, at half past
// nine in Berlin, and the burst on Mondays as well.
func (m *generator) runsOn(day time.Time) (runs []drill.Run) {
	due := day.Add(8*time.Hour + 30*time.Minute)
	some := []drill.Spec{m.specs[int(day.Unix()/86400)%len(m.specs)]}
	if day.Weekday() == time.Monday {
		some = append(some, m.specs[slices.IndexFunc(m.specs, func(s drill.Spec) bool { return s.ID == "burst" })])
	}
	for n, s := range some {
		s.Schedule, s.Zone, s.Owner = "30 9 * * *", "Europe/Berlin", "the team of the gate"
		if day.Month()%2 == 0 && s.ID == "burst" {
			s.Scenario.Workers = 14
		}
		if m.random.IntN(40) > 0 {
			runs = append(runs, m.newRun(s, due.Add(time.Duration(n)*20*time.Minute)))
		}
	}
	return runs
}

// newRun makes one run up that was due at a time.
func (m *generator) newRun(s drill.Spec, due time.Time) drill.Run {
	began := due.Add(time.Duration(300+m.random.IntN(2000)) * time.Millisecond)
	r := drill.Run{
		ID: m.id(began), Drill: s.ID, Name: s.Name, Spec: s, Version: "v0.9.0", Trigger: drill.BySchedule, Actor: "schedule",
		Speed: 10, Scheduled: due, Started: began, Status: drill.Ended,
	}
	if m.random.IntN(12) == 0 {
		r.Trigger, r.Actor, r.Scheduled = drill.ByHand, []string{"ana", "ben", "chidi"}[m.random.IntN(3)], time.Time{}
	}
	r.Verdict, r.Reason = m.verdict()
	if r.Verdict == drill.Missed || r.Verdict == drill.Skipped {
		r.Trigger, r.Actor, r.Scheduled, r.Started, r.Ended = drill.BySchedule, "schedule", due, time.Time{}, due
		return r
	}
	m.addEvidence(&r)
	return r
}

// verdict is passed most of the time.
func (m *generator) verdict() (drill.Verdict, string) {
	switch n := m.random.IntN(100); {
	case n < 84:
		return drill.Passed, ""
	case n < 90:
		return drill.Failed, "a hypothesis did not hold"
	case n < 92:
		return drill.Aborted, "ana: the release comes first"
	case n < 95:
		return drill.Inconclusive, "the load generator did not keep its rate"
	case n < 96:
		return drill.Interrupted, "the process ended under it"
	case n < 98:
		return drill.Skipped, "production has an open page: turnaround_p95 in default"
	default:
		return drill.Missed, "headgate was not running"
	}
}

// id is a UUIDv7 of a time.
func (m *generator) id(at time.Time) string {
	m.ids++
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16|0x7000|m.ids&0xfff)
	binary.BigEndian.PutUint64(b[8:], 0x8000000000000000|m.random.Uint64()>>2)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
