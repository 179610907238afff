package drill

import (
	"fmt"
	"time"
)

// delayedFirstBytes finds answers that began at their client long after the gate had their
// beginning: a stream has to flow as it comes.
func (l *evaluation) delayedFirstBytes() string {
	limit := 2*l.tolerance + 3*time.Second
	n, all, most := 0, 0, time.Duration(0)
	for _, t := range l.Evidence.Tasks {
		c, ok := l.lastCall(t)
		if !ok || c.FirstByte == 0 || t.FirstByte == 0 || c.Fault != "" {
			continue
		}
		all++
		if by := t.FirstByte - c.FirstByte; by > limit {
			n++
			most = max(most, by)
		}
	}
	if n > 2 && n*20 > all { // a machine that is busy for a moment holds some up
		return fmt.Sprintf("%d of %d answers began at their client up to %.0f s after the endpoint had begun them: they do not flow as they come", n, all, most.Seconds())
	}
	return ""
}

// longWait is how long a task has to wait, besides what a busy machine takes, for it to
// be in a queue; minQueuedTime is for how long there has to have been one, in all, to say
// how busy the workers were meanwhile; permitHandover is what giving a permit on may take, on the wall
// clock; and maxIdleShare is the share of the workers' time that may be lost besides.
const (
	longWait       = 5 * time.Second
	minQueuedTime  = 20 * time.Second
	permitHandover = 50 * time.Millisecond
	maxIdleShare   = 0.2
)

// underusedWorkers finds permits that are held on to for a while after each call: at no
// moment is much amiss, and a part of the workers is never used.
func (l *evaluation) underusedWorkers() string {
	if len(l.Evidence.Calls) == 0 || l.Evidence.Workers == 0 {
		return ""
	}
	var took time.Duration
	for _, c := range l.Evidence.Calls {
		if !c.Open {
			took += c.Ended - c.Started
		}
	}
	mean := max(took/time.Duration(len(l.Evidence.Calls)), time.Second)
	waited, used := l.gateOccupancyOf(l.longWaits()).meanWhileWaiting(l.Evidence.At)
	idle := 1 - used/float64(l.Evidence.Workers)
	if may := maxIdleShare + float64(permitHandover)*l.speed/float64(mean); waited < minQueuedTime || idle <= may {
		return ""
	}
	return fmt.Sprintf("while there was a queue, for %.0f s in all, %.1f of %d were in flight: permits do not come back at once, or are not given out",
		waited.Seconds(), used, l.Evidence.Workers)
}

// longWaits are those that are too long to be a busy machine's work.
func (l *evaluation) longWaits() []queueWait {
	var long []queueWait
	for _, w := range l.waits {
		if w.to-w.from > longWait+2*l.tolerance {
			long = append(long, w)
		}
	}
	return long
}

// meanWhileWaiting is for how long somebody waited, and how many were in flight then, on
// average.
func (b occupancy) meanWhileWaiting(end time.Duration) (waited time.Duration, used float64) {
	for i, s := range b.steps {
		next := end
		if i+1 < len(b.steps) {
			next = b.steps[i+1].At
		}
		if s.Waiting > 0 && next > s.At {
			waited += next - s.At
			used += float64(s.InFlight) * (next - s.At).Seconds()
		}
	}
	if waited == 0 {
		return 0, 0
	}
	return waited, used / waited.Seconds()
}
