package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"headgate/web/api"
)

// clearScreen moves to the top left corner and empties the screen.
const clearScreen = "\x1b[H\x1b[2J"

// watch shows the status again and again until ctx ends. A service that does not
// answer is shown as such and asked again: that is when one wants to watch.
func (v *statusView) watch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		s, err := v.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		if v.draw(&s, err) != nil {
			return // whoever looked has gone
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// draw shows one look. It returns an error if it could not be written.
func (v *statusView) draw(s *api.Status, asked error) error {
	at := v.now().UTC().Format(time.RFC3339)
	switch {
	case v.json && asked == nil:
		return json.NewEncoder(v.out).Encode(s)
	case v.screen && !v.json:
		return v.redraw(s, at, asked)
	case asked != nil:
		_, err := fmt.Fprintf(v.err, "headgate: %s %v\n", at, asked)
		return err
	default:
		return v.lines(s, at)
	}
}

func (v *statusView) redraw(s *api.Status, at string, asked error) error {
	if _, err := io.WriteString(v.out, clearScreen+at+"  every "+watchInterval.String()+", Ctrl-C ends\n\n"); err != nil {
		return err
	}
	if asked != nil {
		_, err := fmt.Fprintln(v.out, v.paint.highlight(red, asked.Error()))
		return err
	}
	return v.table(v.out, s)
}

// lines appends a line for each pool.
func (v *statusView) lines(s *api.Status, at string) error {
	for i := range s.Pools {
		p := &s.Pools[i]
		if _, err := fmt.Fprintf(v.out, "%s %s %s in_flight=%d/%d queued=%d oldest=%s p95=%s refused_1m=%d admitted_1m=%d\n",
			at, sanitize(p.Name), modeText(p.Mode), p.InFlight, p.Workers, p.QueueDepth, formatSeconds(p.QueueOldestAgeS), secondsOrDash(p.P95TurnaroundS),
			p.Refused1m, p.Admitted1m); err != nil {
			return err
		}
	}
	return nil
}
