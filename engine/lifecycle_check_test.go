package engine

import (
	"fmt"
	"time"
)

// lifecycleChecker watches what is said of incidents, and knows what can never be.
type lifecycleChecker struct {
	byID map[string]*incidentLife
	open map[Key]string
}

type incidentLife struct {
	seq      int
	open     bool
	level    Level
	reminded time.Time
	acked    bool
}

func newLifecycleChecker() *lifecycleChecker {
	return &lifecycleChecker{byID: map[string]*incidentLife{}, open: map[Key]string{}}
}

func (l *lifecycleChecker) add(inc Incident, e Event) error {
	lf, known := l.byID[e.Incident]
	if !known {
		lf = &incidentLife{}
		l.byID[e.Incident] = lf
	}
	if known != (e.Kind != EventOpened) {
		return fmt.Errorf("%s of an incident that was opened: %v", e.Kind, known)
	}
	if lf.seq++; e.Seq != lf.seq {
		return fmt.Errorf("event %s has number %d, want %d", e.Kind, e.Seq, lf.seq)
	}
	if e.Digested && e.Kind == EventOpened {
		return fmt.Errorf("%s without a ping", e.Kind)
	}
	if err := l.checkEvent(lf, inc, e); err != nil {
		return err
	}
	lf.level = e.Level
	if lf.open {
		l.open[inc.Key] = e.Incident
	} else if l.open[inc.Key] == e.Incident {
		delete(l.open, inc.Key)
	}
	return nil
}

// checkEvent checks that an event can follow the ones before.
func (l *lifecycleChecker) checkEvent(lf *incidentLife, inc Incident, e Event) error {
	switch e.Kind {
	case EventOpened, EventReopened:
		if other := l.open[inc.Key]; other != "" {
			return fmt.Errorf("%s while %s is open", e.Kind, other)
		}
		lf.open, lf.acked = true, false
	case EventFlapping, EventSteady, EventUnmuted:
	default:
		if !lf.open {
			return fmt.Errorf("%s of an incident that is over", e.Kind)
		}
	}
	switch {
	case e.Kind == EventEscalated && (lf.level != LevelWarn || e.Level != LevelPage):
		return fmt.Errorf("escalated from %s to %s", lf.level, e.Level)
	case e.Kind == EventDeescalated && (lf.level != LevelPage || e.Level != LevelWarn):
		return fmt.Errorf("deescalated from %s to %s", lf.level, e.Level)
	case e.Kind == EventReminder && lf.acked:
		return fmt.Errorf("a reminder of what is acknowledged")
	case e.Kind == EventReminder && e.Muted:
		return fmt.Errorf("a reminder under a silence")
	case e.Kind == EventReminder && e.At.Sub(lf.reminded) < 15*time.Second:
		return fmt.Errorf("a reminder %s after the one before", e.At.Sub(lf.reminded))
	case e.Kind == EventUnmuted && e.Muted:
		return fmt.Errorf("the end of a silence is muted")
	case e.Level == LevelNone:
		return fmt.Errorf("%s without a level", e.Kind)
	}
	switch e.Kind {
	case EventReminder:
		lf.reminded = e.At
	case EventAcked:
		lf.acked = true
	case EventAckExpired, EventEscalated:
		lf.acked = false
	case EventResolved:
		lf.open, lf.acked = false, false
	}
	return nil
}
