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

// Defaults of a Config.
const (
	DefaultEndpoint       = "/v1/chat/completions"
	DefaultModel          = "default"
	DefaultMaxOutstanding = 10_000
	DefaultTimeout        = 10 * time.Minute // what the widest-used client waits
	DefaultSLO            = 60 * time.Second
)

// defaultSendLag is the send lag, on the wall clock, up to which the rate counts as
// kept: more than a busy machine's scheduler takes, far less than any SLO.
const defaultSendLag = 50 * time.Millisecond

const (
	maxSpeed       = 10_000
	maxOutstanding = 1_000_000
)

// Config configures the target and the client's behaviour. Only URL is required.
// Durations are scenario time unless stated otherwise.
type Config struct {
	// URL of the endpoint: its root, its /v1 base, or the full address of
	// Endpoint.
	URL string
	// Model of every request. Default "default".
	Model string
	// Endpoint is the path of the calls. Default /v1/chat/completions. The bodies
	// of /v1/completions, /v1/responses and /v1/embeddings have their own shape;
	// every other path gets that of chat.
	Endpoint string
	// Stream asks for server-sent events.
	Stream bool
	// Header is sent with every request, Authorization for instance.
	Header http.Header
	// HeaderFor gives further headers for the arrival with this index; they win.
	// It is called from many goroutines at once. May be nil.
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
	// rest, so at speed 1000 the default is 0.6 s of the wall clock. Default 10 min.
	Timeout time.Duration
	// Retry is the client's behaviour after a refusal. Default: no retry.
	Retry Retry

	// SLO on turnaround, for the late share. Default 60 s.
	SLO time.Duration
	// MaxSendLag is the send lag at the 99th percentile up to which the rate
	// counts as kept. Default: what 50 ms of the wall clock are in scenario time.
	MaxSendLag time.Duration

	// Client makes the calls. The default has its own connections, one for each
	// outstanding request, and follows no redirects.
	Client *http.Client
	// Observe is called once for every arrival when it has ended, dropped ones
	// included, from one goroutine. A slow Observe delays no arrival and changes no
	// measured time, but makes ended arrivals count as outstanding for longer. May be
	// nil.
	Observe func(Result)
}

// Retry is how a refused client behaves. The zero value is the open loop: a
// refused arrival ends.
type Retry struct {
	// MaxAttempts for one arrival, the first included. 0 and 1: no retry.
	MaxAttempts int
	// Fallback is the wait after a refusal without a usable Retry-After; wall
	// clock, as Retry-After is. Default 1 s.
	Fallback time.Duration
}

// withDefaults returns the effective settings, or an error that names an invalid
// field and its valid values.
func (c Config) withDefaults() (Config, error) {
	c.Model = cmp.Or(c.Model, DefaultModel)
	c.Endpoint = cmp.Or(c.Endpoint, DefaultEndpoint)
	c.Speed = cmp.Or(c.Speed, 1)
	c.MaxOutstanding = cmp.Or(c.MaxOutstanding, DefaultMaxOutstanding)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.SLO = cmp.Or(c.SLO, DefaultSLO)
	c.Retry.MaxAttempts = cmp.Or(c.Retry.MaxAttempts, 1)
	c.Retry.Fallback = cmp.Or(c.Retry.Fallback, time.Second)
	if err := c.check(); err != nil {
		return c, err
	}
	c.MaxSendLag = cmp.Or(c.MaxSendLag, time.Duration(float64(defaultSendLag)*c.Speed))
	return c, nil
}

func (c Config) check() error {
	switch {
	case !(c.Speed > 0 && c.Speed <= maxSpeed):
		return fmt.Errorf("speed %v: want above 0 and at most %d", c.Speed, maxSpeed)
	case c.MaxOutstanding < 1 || c.MaxOutstanding > maxOutstanding:
		return fmt.Errorf("max outstanding %d: want 1 to %d", c.MaxOutstanding, maxOutstanding)
	case c.Timeout < 0 || c.SLO < 0 || c.MaxSendLag < 0 || c.Retry.Fallback < 0:
		return errors.New("timeout, SLO, send lag and retry fallback: want 0 for the default, or above 0")
	case c.Retry.MaxAttempts < 1 || c.Retry.MaxAttempts > 100:
		return fmt.Errorf("max attempts %d: want 0 to 100", c.Retry.MaxAttempts)
	case c.Stream && c.Endpoint == embeddingsPath:
		return fmt.Errorf("endpoint %s does not stream: want stream off", c.Endpoint)
	}
	_, err := c.target()
	return err
}

// target is the address of the calls.
func (c Config) target() (string, error) {
	if !strings.HasPrefix(c.Endpoint, "/") {
		return "", fmt.Errorf("endpoint %q: want a path such as %s", c.Endpoint, DefaultEndpoint)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The URL may hold a password: it is not repeated here.
		return "", errors.New("URL: want one such as http://127.0.0.1:8484")
	}
	base := strings.TrimRight(u.Path, "/")
	base = strings.TrimSuffix(base, c.Endpoint)
	if strings.HasPrefix(c.Endpoint, "/v1/") {
		base = strings.TrimSuffix(base, "/v1")
	}
	u.Path, u.RawPath = base+c.Endpoint, ""
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
