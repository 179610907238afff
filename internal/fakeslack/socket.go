package fakeslack

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Bounds of sockets.
const (
	maxSockets  = 10 // as Slack has it
	maxTickets  = 100
	ticketLife  = 30 * time.Second
	maxFrame    = 64 << 10
	pingEvery   = 5 * time.Second
	pongWithin  = 30 * time.Second
	writeWithin = 5 * time.Second
	leaveWithin = 10 * time.Second // after a disconnect message
)

// socket is a connection in Socket Mode.
type socket struct {
	conn  *websocket.Conn
	mute  bool // nothing goes out any more after hello, as when the network has lost it
	write sync.Mutex

	// Guarded by the server's lock.
	pending map[string]chan json.RawMessage // envelopes that have no answer yet, or only one of two
	leaving bool                            // has been told to go
}

// ticket opens one socket.
type ticket struct {
	id    string
	until time.Time
}

// openConnection hands out the address of a socket.
func (s *Server) openConnection(v url.Values) reply {
	now := s.o.Now()
	s.tickets = slices.DeleteFunc(s.tickets, func(t ticket) bool { return now.After(t.until) })
	if len(s.tickets) == maxTickets {
		return refusal("ratelimited")
	}
	t := ticket{rand.Text(), now.Add(ticketLife)}
	s.tickets = append(s.tickets, t)
	return reply{"ok": true, "url": "ws://" + v.Get("host") + "/link/?app_id=" + AppID + "&ticket=" + t.id}
}

// redeem takes a ticket. It is good for one socket.
func (s *Server) redeem(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.tickets, func(t ticket) bool { return t.id == id && !s.o.Now().After(t.until) })
	if i < 0 {
		return false
	}
	s.tickets = slices.Delete(s.tickets, i, i+1)
	return true
}

// serveSocket is a socket's whole life. Faults on "link" keep it from beginning.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.strikeLocked("link", "")
	s.mu.Unlock()
	if f != nil && f.before(w, r) {
		return
	}
	if !s.redeem(r.URL.Query().Get("ticket")) {
		http.Error(w, "the ticket is unknown, used or too old", http.StatusForbidden)
		return
	}
	// Whoever holds a ticket may connect: clients send the API's own origin.
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }, HandshakeTimeout: writeWithin}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.Close()
	k := &socket{conn: conn, mute: f != nil && f.Kind == Mute, pending: make(map[string]chan json.RawMessage)}
	n, ok := s.join(k)
	if !ok {
		_ = k.put(disconnect("too_many_websockets"))
		return
	}
	defer s.part(k)
	if k.put(hello(n)) != nil {
		return
	}
	s.read(k)
}

// join counts a socket in. It refuses the eleventh, and all once the server is
// closed.
func (s *Server) join(k *socket) (n int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.sockets) == maxSockets {
		return 0, false
	}
	s.live.Add(1)
	s.sockets = append(s.sockets, k)
	s.changedLocked()
	return len(s.sockets), true
}

// part counts a socket out. Whoever waits for its answers hears that none will
// come.
func (s *Server) part(k *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets = slices.DeleteFunc(s.sockets, func(o *socket) bool { return o == k })
	for _, c := range k.pending {
		close(c)
	}
	k.pending = nil
	s.changedLocked()
	s.live.Done()
}

// read takes answers until the socket is lost. Pings go out beside it.
func (s *Server) read(k *socket) {
	done := make(chan struct{})
	var pings sync.WaitGroup
	if !k.mute {
		pings.Go(func() { k.ping(s.o.Pings, done) })
	}
	defer pings.Wait()
	defer close(done)
	k.conn.SetReadLimit(maxFrame)
	_ = k.conn.SetReadDeadline(time.Now().Add(pongWithin))
	k.conn.SetPongHandler(func(string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if k.leaving {
			return nil
		}
		return k.conn.SetReadDeadline(time.Now().Add(pongWithin))
	})
	for {
		_, raw, err := k.conn.ReadMessage()
		if err != nil {
			return
		}
		s.answered(k, raw)
	}
}

// answered matches an answer to its envelope. What matches none is ignored.
func (s *Server) answered(k *socket, raw []byte) {
	var a struct {
		Envelope string          `json:"envelope_id"`
		Payload  json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(raw, &a) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case k.pending[a.Envelope] <- a.Payload: // unknown: nil, which takes nothing
	default:
	}
}

func (k *socket) ping(every time.Duration, done <-chan struct{}) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			_ = k.conn.WriteControl(websocket.PingMessage, []byte("ping"), time.Now().Add(writeWithin))
		}
	}
}

// send writes a message, or loses it.
func (k *socket) send(v any) error {
	if k.mute {
		return nil
	}
	return k.put(v)
}

func (k *socket) put(v any) error {
	k.write.Lock()
	defer k.write.Unlock()
	_ = k.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	return k.conn.WriteJSON(v)
}

func hello(n int) reply {
	return reply{
		"type": "hello", "num_connections": n, "connection_info": reply{"app_id": AppID},
		"debug_info": reply{"host": "applink-fake", "build_number": 1, "approximate_connection_time": 18060},
	}
}

func disconnect(reason string) reply {
	return reply{"type": "disconnect", "reason": reason, "debug_info": reply{"host": "applink-fake"}}
}

// overSocket sends an interaction over the youngest socket that is to stay.
func (s *Server) overSocket(ctx context.Context, i Interaction, f Fault, r *Receipt) (said []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.Patience, ErrNoAnswer)
	defer cancel()
	e := i.envelope()
	k, answers := s.expect(e["envelope_id"].(string))
	if k == nil {
		return nil, ErrNoSocket
	}
	defer s.forget(k, e["envelope_id"].(string))
	times := 1
	if f.Kind == Twice {
		times = 2
	}
	if f.Kind == DropBefore {
		_ = k.conn.Close()
		return nil, ErrDropped
	}
	for range times {
		if k.send(e) != nil {
			return nil, ErrDropped
		}
		r.Sent++
	}
	if f.Kind == DropAfter {
		_ = k.conn.Close()
	}
	for range times {
		if said, err = receive(ctx, answers); err != nil {
			return nil, err
		}
		r.Answers++
	}
	return said, nil
}

func receive(ctx context.Context, answers <-chan json.RawMessage) ([]byte, error) {
	select {
	case said, ok := <-answers:
		if !ok {
			return nil, ErrDropped
		}
		return said, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (i Interaction) envelope() reply {
	kind := "interactive"
	if i.Kind == Typed {
		kind = "slash_commands"
	}
	return reply{
		"envelope_id": rand.Text(), "type": kind, "accepts_response_payload": i.Kind == Typed, "payload": i.payload(),
	}
}

// expect chooses a socket and makes room for an envelope's answers.
func (s *Server) expect(envelope string) (*socket, <-chan json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Backward(s.sockets) {
		if !k.leaving {
			answers := make(chan json.RawMessage, 2)
			k.pending[envelope] = answers
			return k, answers
		}
	}
	return nil, nil
}

func (s *Server) forget(k *socket, envelope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(k.pending, envelope)
}

// Sockets returns how many are open.
func (s *Server) Sockets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sockets)
}

// AwaitSockets waits until exactly n sockets are open that have not been told to
// go.
func (s *Server) AwaitSockets(ctx context.Context, n int) error {
	return s.await(ctx, func() bool {
		staying := 0
		for _, k := range s.sockets {
			if !k.leaving {
				staying++
			}
		}
		return staying == n
	})
}

// Disconnect tells all apps to connect anew. The reason is warning or
// refresh_requested, or link_disabled when Socket Mode is switched off. Sockets
// that have not gone after ten seconds are closed.
func (s *Server) Disconnect(reason string) {
	for _, k := range s.all(true) {
		_ = k.send(disconnect(reason)) // lost meanwhile: it has gone already
		_ = k.conn.SetReadDeadline(time.Now().Add(leaveWithin))
	}
}

// DropSockets breaks all sockets off without a word.
func (s *Server) DropSockets() {
	for _, k := range s.all(true) {
		_ = k.conn.NetConn().Close()
	}
}

func (s *Server) all(leaving bool) []*socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.sockets {
		k.leaving = k.leaving || leaving
	}
	s.changedLocked()
	return slices.Clone(s.sockets)
}

// Close breaks all sockets off, lets no new ones in, and waits for their ends. The
// rest goes on as before. It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.DropSockets()
	s.live.Wait()
	s.client.CloseIdleConnections()
}
