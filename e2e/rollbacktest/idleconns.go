package rollbacktest

import (
	"net"
	"sync"
	"time"
)

// IdleConns is connections that are opened and never used.
type IdleConns struct {
	address string
	mu      sync.Mutex
	conns   []net.Conn
}

// NewIdleConns returns a hoard of nothing, at a listener.
func NewIdleConns(address string) *IdleConns { return &IdleConns{address: address} }

// Open opens up to n further connections, writes what is given into each, and
// returns how many came about. It may be called from several goroutines.
func (h *IdleConns) Open(n int, written ...byte) (made int) {
	for range n {
		c, err := net.DialTimeout("tcp", h.address, 5*time.Second)
		if err != nil {
			return made
		}
		h.mu.Lock()
		h.conns = append(h.conns, c)
		h.mu.Unlock()
		if _, err := c.Write(written); err != nil {
			return made
		}
		made++
	}
	return made
}

// ClosedByPeer is how many connections the other side has closed, as far as a look
// tells that takes no time.
func (h *IdleConns) ClosedByPeer() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	buf := make([]byte, 4096)
	for _, c := range h.conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		for {
			_, err := c.Read(buf)
			if err == nil {
				continue
			}
			if e, ok := err.(net.Error); !ok || !e.Timeout() {
				n++
			}
			break
		}
	}
	return n
}

// Close closes all connections.
func (h *IdleConns) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
}
