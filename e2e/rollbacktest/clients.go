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
	Complete bool   // the stream came to its end
	SentAt   time.Time
	EndedAt  time.Time // the answer was read to its end
	Err      error
}

// Clients is clients of a gate. Set its fields before anybody comes.
type Clients struct {
	Model string
	Key   string // sent as bearer token, if there is one

	url    string
	client *http.Client
	group  sync.WaitGroup

	mu       sync.Mutex
	results  []TaskResult
	refusals int // tasks of presses
}

// NewClients returns a crowd of nobody, at the data plane of a gate.
func NewClients(url string) *Clients {
	return &Clients{Model: defaultModel, url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
}

// Start sends so many tasks and does not wait for their ends.
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

// Wait waits until all clients have their answers and returns them.
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
		err = errors.New("some clients have had no answer")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results, err
}

// Refusals is how many tasks of presses were refused.
func (c *Clients) Refusals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusals
}
