package rollbacktest

import (
	"net/http"
	"sync"
	"time"
)

// RetryClients is clients of a crowd that ask again and again until they are let in.
type RetryClients struct {
	clients *Clients
	all     []*retryClient
}

// retryClient is one client. It stays refused until it is let in, once.
type retryClient struct {
	mu        sync.Mutex
	sentAt    time.Time // of the task that is under way
	refusedAt time.Time // of the last refusal
	refusals  int
}

// RetryClients makes so many clients ask, with a pause after each refusal.
func (c *Clients) StartRetrying(n int, pause time.Duration) *RetryClients {
	p := &RetryClients{clients: c}
	for range n {
		s := &retryClient{}
		p.all = append(p.all, s)
		c.group.Go(func() { c.retry(s, pause) })
	}
	return p
}

func (c *Clients) retry(s *retryClient, pause time.Duration) {
	for {
		s.mu.Lock()
		s.sentAt = time.Now()
		s.mu.Unlock()
		a := c.Send()
		if a.Status != http.StatusTooManyRequests || a.Err != nil {
			c.record(a)
			return
		}
		s.mu.Lock()
		s.refusedAt = a.EndedAt
		s.refusals++
		s.mu.Unlock()
		c.mu.Lock()
		c.refusals++
		c.mu.Unlock()
		time.Sleep(pause)
	}
}

// MinRefusals is how often the client with the fewest refusals was refused.
func (p *RetryClients) MinRefusals() int {
	least := -1
	for _, s := range p.all {
		s.mu.Lock()
		if least < 0 || s.refusals < least {
			least = s.refusals
		}
		s.mu.Unlock()
	}
	return least
}

// timeToEffect is how long it took from an order until somebody had been let in and
// nobody was refused any more. All clients must be in by now.
func (p *RetryClients) timeToEffect(ordered time.Time) time.Duration {
	var first, last time.Time
	for _, s := range p.all {
		s.mu.Lock()
		if first.IsZero() || s.sentAt.Before(first) {
			first = s.sentAt
		}
		if s.refusedAt.After(last) {
			last = s.refusedAt
		}
		s.mu.Unlock()
	}
	if last.After(first) {
		first = last
	}
	return max(first.Sub(ordered), 0)
}
