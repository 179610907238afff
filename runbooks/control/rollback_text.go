package control

import (
	"fmt"
	"time"

	"headgate/internal/format"
	"headgate/proxy/admission"
)

// Text is the message of a reminder: how long the pool has been in pass-through, who decided it and why, the queue, and
// how to undo it.
func (r Reminder) Text() string {
	s := fmt.Sprintf("Pool %s has been in pass-through for %s, since %s by %s", r.Pool, time.Duration(r.Hour)*time.Hour,
		format.Time(r.Since), r.Actor)
	if r.Reason != "" {
		s += " (" + r.Reason + ")"
	}
	s += fmt.Sprintf(". Nothing is refused meanwhile: %d wait, the oldest for %s; %d of %d in flight. To restore: headgate restore --pool %s",
		r.Queued, r.Oldest.Round(time.Second), r.InFlight, r.Workers, r.Pool)
	if r.RestoreMode == admission.Observe {
		s += " (to observe, as before)"
	}
	return s
}

// UnrecordedRollbackText is the message about an automatic rollback that the record does not take.
func (c ModeChange) UnrecordedRollbackText() string {
	return fmt.Sprintf("Pool %s was rolled back automatically at %s: %s. The change cannot be recorded: a restart would lose it and "+
		"re-enable admission control. To restore by hand: headgate restore --pool %s", c.Pool, format.Time(c.At), c.Reason, c.Pool)
}
