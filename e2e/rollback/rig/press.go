package rig

import (
	"net/http"
	"sync"
	"time"
)

// Press is clients of a crowd that ask again and again until they are let in.
type Press struct {
	crowd   *Crowd
	senders []*sender
}

// sender is one client. It stays refused until it is let in, once.
type sender struct {
	mu      sync.Mutex
	sent    time.Time // of the task that is under way
	told    time.Time // of the last refusal
	refused int
}

// Press makes so many clients ask, with a pause after each refusal.
func (c *Crowd) Press(n int, pause time.Duration) *Press {
	p := &Press{crowd: c}
	for range n {
		s := &sender{}
		p.senders = append(p.senders, s)
		c.group.Go(func() { c.press(s, pause) })
	}
	return p
}

func (c *Crowd) press(s *sender, pause time.Duration) {
	for {
		s.mu.Lock()
		s.sent = time.Now()
		s.mu.Unlock()
		a := c.Send()
		if a.Status != http.StatusTooManyRequests || a.Err != nil {
			c.note(a)
			return
		}
		s.mu.Lock()
		s.told = a.Told
		s.refused++
		s.mu.Unlock()
		c.mu.Lock()
		c.refused++
		c.mu.Unlock()
		time.Sleep(pause)
	}
}

// Refused is how often the client with the fewest refusals was refused.
func (p *Press) Refused() int {
	least := -1
	for _, s := range p.senders {
		s.mu.Lock()
		if least < 0 || s.refused < least {
			least = s.refused
		}
		s.mu.Unlock()
	}
	return least
}

// moment is how long it took from an order until somebody had been let in and
// nobody was refused any more. All clients must be in by now.
func (p *Press) moment(ordered time.Time) time.Duration {
	var first, last time.Time
	for _, s := range p.senders {
		s.mu.Lock()
		if first.IsZero() || s.sent.Before(first) {
			first = s.sent
		}
		if s.told.After(last) {
			last = s.told
		}
		s.mu.Unlock()
	}
	if last.After(first) {
		first = last
	}
	return max(first.Sub(ordered), 0)
}
