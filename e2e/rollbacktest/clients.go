package rollbacktest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// defaultModel is the model that clients ask for.
const defaultModel = "m"

// TaskResult is how a task ended for its client.
type TaskResult struct {
	Status   int
	Reason   string // of a refusal
	Complete bool   // the stream has its last event
	SentAt   time.Time
	EndedAt  time.Time // the answer was read to its end
	Err      error
}

// Clients are clients of a gate. Set the fields before the first task is sent.
type Clients struct {
	Model string
	Key   string // sent as bearer token, if there is one

	url    string
	client *http.Client
	group  sync.WaitGroup

	mu       sync.Mutex
	results  []TaskResult
	refusals int // of clients that retry
}

// NewClients returns clients of a data plane.
func NewClients(url string) *Clients {
	return &Clients{Model: defaultModel, url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
}

// Start sends n tasks and does not wait for their ends.
func (c *Clients) Start(n int) {
	for range n {
		c.group.Go(func() { c.record(c.Send()) })
	}
}

func (c *Clients) record(a TaskResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, a)
}

// Send sends one task and waits for its end. It may be called from any goroutine.
func (c *Clients) Send() TaskResult {
	a := TaskResult{SentAt: time.Now()}
	res, err := c.client.Do(c.request())
	if err != nil {
		a.Err = err
		return a
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	a.EndedAt, a.Status, a.Reason, a.Err = time.Now(), res.StatusCode, res.Header.Get("Headgate-Reason"), err
	a.Complete = err == nil && strings.HasSuffix(string(text), "data: [DONE]\n\n")
	return a
}

func (c *Clients) request() *http.Request {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"hello"}]}`, c.Model)
	r, err := http.NewRequest(http.MethodPost, c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil { // the URL is that of a gate that answered
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	return r
}

// Wait waits until all clients have their answers, and returns the answers.
func (c *Clients) Wait(within time.Duration) ([]TaskResult, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.group.Wait()
	}()
	limit := time.NewTimer(within)
	defer limit.Stop()
	var err error
	select {
	case <-done:
	case <-limit.C:
		err = errors.New("some clients have no answer yet")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results, err
}

// Refusals is how many tasks of clients that retry were refused.
func (c *Clients) Refusals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusals
}

// RetryClients are clients that send again after each refusal until they are admitted.
type RetryClients struct {
	clients *Clients
	all     []*retryClient
}

// retryClient is one client.
type retryClient struct {
	mu        sync.Mutex
	sentAt    time.Time // of the task that is under way
	refusedAt time.Time // of the last refusal
	refusals  int
}

// StartRetrying starts n clients, which pause after each refusal.
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

// MinRefusals returns the number of refusals of the client that has the fewest.
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

// timeToEffect returns the time from an order until a task had been admitted and none was
// refused any more. All clients must have been admitted by now.
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
