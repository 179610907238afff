package rig

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// usual is the model that clients ask for.
const usual = "m"

// Answer is how a task ended for its client.
type Answer struct {
	Status int
	Reason string // of a refusal
	Whole  bool   // the stream came to its end
	Sent   time.Time
	Told   time.Time // the answer was read to its end
	Err    error
}

// Crowd is clients of a gate. Set its fields before anybody comes.
type Crowd struct {
	Model string
	Key   string // sent as bearer token, if there is one

	url    string
	client *http.Client
	group  sync.WaitGroup

	mu      sync.Mutex
	answers []Answer
	refused int // tasks of presses
}

// NewCrowd returns a crowd of nobody, at the data plane of a gate.
func NewCrowd(url string) *Crowd {
	return &Crowd{Model: usual, url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
}

// Join sends so many tasks and does not wait for their ends.
func (c *Crowd) Join(n int) {
	for range n {
		c.group.Go(func() { c.note(c.Send()) })
	}
}

func (c *Crowd) note(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, a)
}

// Send sends one task and waits for its end. It may be called from any goroutine.
func (c *Crowd) Send() Answer {
	a := Answer{Sent: time.Now()}
	res, err := c.client.Do(c.request())
	if err != nil {
		a.Err = err
		return a
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	a.Told, a.Status, a.Reason, a.Err = time.Now(), res.StatusCode, res.Header.Get("Headgate-Reason"), err
	a.Whole = err == nil && strings.HasSuffix(string(text), "data: [DONE]\n\n")
	return a
}

func (c *Crowd) request() *http.Request {
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

// Ended waits until all clients have their answers and returns them.
func (c *Crowd) Ended(within time.Duration) ([]Answer, error) {
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
	return c.answers, err
}

// Refused is how many tasks of presses were refused.
func (c *Crowd) Refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
