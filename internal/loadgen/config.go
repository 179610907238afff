package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// path is the endpoint of the calls.
const path = "/v1/chat/completions"

// maxSendLag is the send lag at the 99th percentile, on the wall clock, up to which
// the rate counts as kept: more than a busy machine's scheduler takes, far less than
// any SLO.
const maxSendLag = 50 * time.Millisecond

const (
	maxSpeed       = 10_000
	maxOutstanding = 1_000_000
)

// Config configures the target and the client's behaviour. Only URL is required.
// Durations are scenario time unless stated otherwise.
type Config struct {
	// URL of the endpoint: its root, its /v1 base, or the address of its chat
	// completions.
	URL string
	// Model of every request. Default "default".
	Model string
	// Stream asks for server-sent events.
	Stream bool
	// HeaderFor gives headers for the arrival with this index. It is called from many
	// goroutines at once. May be nil.
	HeaderFor func(index int) http.Header
	// User gives the "user" of the request for the arrival with this index, which makes
	// every request unique. It is called from many goroutines at once. Nil: the
	// requests have none.
	User func(index int) string

	// Speed is the number of scenario seconds in one second of the wall clock.
	// Default 1, at most 10000. The service times of the endpoint should be compressed
	// alike, or the load changes.
	Speed float64
	// MaxOutstanding bounds the arrivals that were sent and have not ended.
	// Beyond it an arrival is dropped and the rate counts as not kept: a
	// generator that waited instead would close the loop. Default 10000.
	MaxOutstanding int
	// Timeout of one attempt, from sending to the last byte; scenario time like the
	// rest, so at speed 1000 the default is 0.6 s of the wall clock. Default 10 min,
	// which is what the widest-used client waits.
	Timeout time.Duration
	// MaxAttempts for one arrival, the first included: a refused arrival is sent again
	// after its Retry-After, which is wall clock, or after a second without a usable
	// one. Default 1, the open loop: a refused arrival ends.
	MaxAttempts int
	// SLO on turnaround, for the late arrivals. Default 60 s.
	SLO time.Duration

	// Client makes the calls. The default has its own connections, one for each
	// outstanding request, and follows no redirects.
	Client *http.Client
	// Observe is called once for every arrival when it has ended, dropped ones
	// included, from one goroutine. A slow Observe delays no arrival and changes no
	// measured time, but makes ended arrivals count as outstanding for longer. May be
	// nil.
	Observe func(Result)
}

// withDefaults returns the effective settings, or an error that names an invalid
// field and its valid values.
func (c Config) withDefaults() (Config, error) {
	c.Model = cmp.Or(c.Model, "default")
	c.Speed = cmp.Or(c.Speed, 1)
	c.MaxOutstanding = cmp.Or(c.MaxOutstanding, 10_000)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 1)
	c.SLO = cmp.Or(c.SLO, 60*time.Second)
	switch {
	case !(c.Speed > 0 && c.Speed <= maxSpeed):
		return c, fmt.Errorf("speed %v: want above 0 and at most %d", c.Speed, maxSpeed)
	case c.MaxOutstanding < 1 || c.MaxOutstanding > maxOutstanding:
		return c, fmt.Errorf("max outstanding %d: want 1 to %d", c.MaxOutstanding, maxOutstanding)
	case c.Timeout < 0 || c.SLO < 0:
		return c, errors.New("timeout and SLO: want 0 for the default, or above 0")
	case c.MaxAttempts < 1 || c.MaxAttempts > 100:
		return c, fmt.Errorf("max attempts %d: want 0 to 100", c.MaxAttempts)
	}
	_, err := c.target()
	return c, err
}

// target is the address of the calls.
func (c Config) target() (string, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The URL may hold a password: it is not repeated here.
		return "", errors.New("URL: want one such as http://127.0.0.1:8484")
	}
	base := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), path)
	u.Path, u.RawPath = strings.TrimSuffix(base, "/v1")+path, ""
	return u.String(), nil
}

// clock converts between the wall clock and scenario time.
type clock struct {
	start time.Time
	speed float64
}

// now is the scenario time.
func (c clock) now() time.Duration { return c.toScenario(time.Since(c.start)) }

// until is how long to wait on the wall clock for a scenario time.
func (c clock) until(at time.Duration) time.Duration { return c.toWall(at) - time.Since(c.start) }

func (c clock) toScenario(wall time.Duration) time.Duration {
	return time.Duration(float64(wall) * c.speed)
}

// toWall rounds up, so that nothing is sent before its time.
func (c clock) toWall(scenario time.Duration) time.Duration {
	w := time.Duration(float64(scenario) / c.speed)
	if c.toScenario(w) < scenario {
		w++
	}
	return w
}

// sleep waits on the wall clock; false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
