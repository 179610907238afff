package bench

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headgate/e2e/rollbacktest"
)

// Requests of an attack per second. They are few: the attacker shares the machine with the gate.
const (
	guesses = 200 // with a wrong token
	bombs   = 10  // with a wrong token and a body of bombBytes
)

const bombBytes = 1 << 20

// attack is an attack on the admin listener: connections with the first line of a request,
// guessed tokens, and large bodies.
type attack struct {
	idle    *rollbacktest.IdleConns
	open    int
	end     context.CancelFunc
	group   sync.WaitGroup
	client  *http.Client
	refused atomic.Int64
}

func startAttack(admin string, connections int) *attack {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attack{
		idle: rollbacktest.NewIdleConns(strings.TrimPrefix(admin, "http://")), end: cancel,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}},
	}
	a.open = a.idle.Open(connections, []byte("PUT /api/v1/mode HTTP/1.1\r\n")...)
	a.group.Go(func() { a.every(ctx, time.Second/guesses, admin, `{"mode":"passthrough"}`) })
	a.group.Go(func() { a.every(ctx, time.Second/bombs, admin, strings.Repeat("x", bombBytes)) })
	return a
}

// every sends a request periodically.
func (a *attack) every(ctx context.Context, pause time.Duration, admin, body string) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, admin+"/api/v1/mode", strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer a-token-that-was-guessed")
		r.Header.Set("Content-Type", "application/json")
		if res, err := a.client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, res.Body) // only the status matters
			_ = res.Body.Close()
			if res.StatusCode >= 400 {
				a.refused.Add(1)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// stop ends the attack and returns how many connections it had and how many of its requests
// were refused.
func (a *attack) stop() (open int, refused int64) {
	a.end()
	a.group.Wait()
	a.idle.Close()
	a.client.CloseIdleConnections()
	return a.open, a.refused.Load()
}
