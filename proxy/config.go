package proxy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"headgate/proxy/admission"
)

// Unrouted is the pool label of tasks that failed before a pool was found for
// them. No pool may have this name.
const Unrouted = "unrouted"

// Config is what a Proxy is made of.
type Config struct {
	Pools    []Pool
	Clients  []Client // empty: no keys are asked for, and the client's Authorization is passed on
	Observer Observer // hears of every task
	Log      *slog.Logger
	Timeouts Timeouts
}

// Pool is one model endpoint with its gate.
type Pool struct {
	Name        string
	Upstream    *url.URL // base, such as http://host/v1; a request's path below /v1 is appended
	UpstreamKey string   // sent as bearer token; empty: see Config.Clients
	Models      []string // names that are routed here; `*` in a name matches any run of characters
	Endpoints   []string // more POST paths to forward, beside the listed ones
	Gate        *admission.Gate
	SLO         time.Duration // on turnaround; the default deadline

	ConnectTimeout  time.Duration // to reach the upstream, TLS included
	IdleTimeout     time.Duration // of upstream silence, before the first byte and between bytes
	BodyLimit       int64         // bytes of one request body, decoded or not
	BufferLimit     int64         // bytes of all request bodies that are held at one time
	StreamKeepAlive time.Duration // between comments to a stream that waits for its permit; 0: none

	Transport http.RoundTripper // nil: one made from the timeouts above
	// Around is put around the one that is made, once for each that is. Nil: nothing.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Client is somebody who may send tasks.
type Client struct {
	Name      string
	KeySHA256 [sha256.Size]byte
	Class     admission.Class // the best class that this client's tasks may ask for
}

// Timeouts bound what a slow client can hold. Zero fields get the defaults.
type Timeouts struct {
	BodyRead    time.Duration // without a byte of the request body; default 30 s
	ClientWrite time.Duration // for one write to the client to be taken; default 60 s
}

func (t Timeouts) withDefaults() Timeouts {
	if t.BodyRead == 0 {
		t.BodyRead = 30 * time.Second
	}
	if t.ClientWrite == 0 {
		t.ClientWrite = 60 * time.Second
	}
	return t
}

func (c Config) validate() error {
	if len(c.Pools) == 0 {
		return errors.New("no pools")
	}
	if c.Observer == nil || c.Log == nil {
		return errors.New("observer and log must be set")
	}
	for _, p := range c.Pools {
		if err := p.validate(); err != nil {
			return fmt.Errorf("pool %q: %w", p.Name, err)
		}
	}
	return nil
}

func (p Pool) validate() error {
	switch {
	case p.Name == "" || p.Name == Unrouted:
		return fmt.Errorf("%q is not a name for a pool", p.Name)
	case p.Upstream == nil || p.Upstream.Host == "" || !strings.HasPrefix(p.Upstream.Scheme, "http"):
		return errors.New("upstream must be an absolute http or https URL")
	case p.Gate == nil:
		return errors.New("gate must be set")
	case p.SLO <= 0 || p.ConnectTimeout <= 0 || p.IdleTimeout <= 0:
		return errors.New("SLO and timeouts must be above 0")
	case p.BodyLimit <= 0 || p.BufferLimit < p.BodyLimit:
		return errors.New("body limit must be above 0 and fit in the buffer limit")
	}
	return nil
}
