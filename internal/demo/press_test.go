package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/internal/fakeslack"
)

// buttonPresser presses buttons as somebody at the page would, one after the other, and
// only once the demo shows what became of the one before.
type buttonPresser struct {
	slack   *fakeslack.Server
	presses sync.WaitGroup
	errs    chan error
	next    int
}

// pressStep is a press, once the gate stands in a mode.
type pressStep struct{ mode, action, user string }

var pressSteps = []pressStep{
	{"enforce", "headgate_rollback", guestUser}, // may not, so the mode stays
	{"enforce", "headgate_rollback", firstUser},
	{"passthrough", "headgate_restore", otherUser},
}

// done says whether the last press has had its effect.
func (p *buttonPresser) done(mode string) bool { return p.next == len(pressSteps) && mode == "enforce" }

// step makes the next press if it is its turn and its button is there.
func (p *buttonPresser) step(mode string) {
	if p.next == len(pressSteps) || pressSteps[p.next].mode != mode {
		return
	}
	if p.next == 1 && len(p.slack.Ephemerals(channelID, guestUser)) == 0 {
		return // has not been told yet
	}
	do := pressSteps[p.next]
	for _, m := range p.slack.Roots(channelID) {
		i, err := p.slack.PressInteraction(channelID, m.TS, do.action, do.user)
		if err != nil {
			continue
		}
		p.next++
		p.presses.Go(func() {
			if _, err := p.slack.Deliver(context.Background(), i); err != nil {
				p.errs <- fmt.Errorf("%s by %s: %w", do.action, do.user, err)
			}
		})
		return
	}
}

// Pressed in the channel, the buttons take the gate out and put it back; the demo
// shows that, says so in the end, and turns those away who may not.
func TestButtonsInTheDemo(t *testing.T) {
	wantEmptyTempDir(t)
	o := overload()
	o.Speed, o.Workers, o.Profile.Bursts = 10, 4, nil // too much from beginning to end
	o.Profile.Duration = 5 * time.Minute
	d := newDemo(t, o)
	p := &buttonPresser{slack: d.monitor.channel.slack, errs: make(chan error, len(pressSteps))}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var modes []string
	sum, err := d.Play(ctx, 50*time.Millisecond, func(s State) error {
		if n := len(modes); n == 0 || modes[n-1] != s.Alerts.Mode {
			modes = append(modes, s.Alerts.Mode)
		}
		p.step(s.Alerts.Mode)
		if p.done(s.Alerts.Mode) {
			stop()
		}
		return nil
	})
	p.presses.Wait()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.errs:
		t.Error(err)
	default:
	}
	if want := []string{"enforce", "passthrough", "enforce"}; !slices.Equal(modes, want) {
		t.Fatalf("modes %v, want %v; receipts %+v", modes, want, p.slack.Receipts())
	}
	if want := []string{"rollback by ada in Slack", "restore by ben in Slack"}; !slices.Equal(sum.Slack.ModeChanges, want) {
		t.Errorf("the summary has %v, want %v", sum.Slack.ModeChanges, want)
	}
	if notes := strings.Join(sum.Notes, " "); !strings.Contains(notes, "not left alone") {
		t.Errorf("nothing is said of it: %s", notes)
	}
	for _, w := range p.slack.Ephemerals(channelID, guestUser) {
		if !strings.Contains(w.Text, "headgate rollback") {
			t.Errorf("who may not was told %q, without the command to type", w.Text)
		}
	}
}
