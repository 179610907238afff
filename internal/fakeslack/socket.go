package fakeslack

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Limits of sockets.
const (
	maxSockets     = 10 // as Slack allows
	maxTickets     = 100
	ticketLifetime = 30 * time.Second
	maxFrame       = 64 << 10 // bytes
	pongTimeout    = 30 * time.Second
	writeTimeout   = 5 * time.Second
	drainTimeout   = 10 * time.Second // after a disconnect message
)

// socket is a connection in Socket Mode.
type socket struct {
	conn    *websocket.Conn
	silent  bool // nothing is sent after hello, as when the network has lost it
	writeMu sync.Mutex

	// Guarded by the server's lock.
	pending  map[string]chan json.RawMessage // envelopes that wait for an answer
	draining bool                            // was asked to disconnect
	deaf     bool                            // acknowledgements are lost: the connection is being dropped
}

// ticket opens one socket.
type ticket struct {
	id      string
	expires time.Time
}

// openConnection returns the URL of a socket.
func (s *Server) openConnection(*channel, url.Values) object {
	now := s.o.Now()
	s.tickets = slices.DeleteFunc(s.tickets, func(t ticket) bool { return now.After(t.expires) })
	if len(s.tickets) == maxTickets {
		return errorObject("ratelimited")
	}
	t := ticket{rand.Text(), now.Add(ticketLifetime)}
	s.tickets = append(s.tickets, t)
	return object{"ok": true, "url": "ws" + strings.TrimPrefix(s.base, "http") + "/link/?app_id=" + AppID + "&ticket=" + t.id}
}

// redeemTicket consumes a ticket, which is valid for one socket.
func (s *Server) redeemTicket(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.tickets, func(t ticket) bool { return t.id == id && !s.o.Now().After(t.expires) })
	if i < 0 {
		return false
	}
	s.tickets = slices.Delete(s.tickets, i, i+1)
	return true
}

// serveSocket serves a socket until it is lost. Faults of "link" prevent it.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.matchFaultLocked("link", "")
	s.mu.Unlock()
	if f.Kind == Slow || f.preventsCall() {
		if f.respond(w, r) {
			return
		}
	}
	if !s.redeemTicket(r.URL.Query().Get("ticket")) {
		http.Error(w, "the ticket is unknown, used or expired", http.StatusForbidden)
		return
	}
	// A ticket is enough to connect: clients send the API's own origin.
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }, HandshakeTimeout: writeTimeout}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has responded
	}
	defer conn.Close()
	k := &socket{conn: conn, silent: f.Kind == SilentSocket, pending: make(map[string]chan json.RawMessage)}
	n, ok := s.addSocket(k)
	if !ok {
		_ = k.writeJSON(disconnect("too_many_websockets"))
		return
	}
	defer s.removeSocket(k)
	if k.writeJSON(hello(n)) != nil {
		return
	}
	s.readSocket(k)
}

// addSocket registers a socket. It rejects the eleventh, and all after Close.
func (s *Server) addSocket(k *socket) (n int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.sockets) == maxSockets {
		return 0, false
	}
	s.socketsDone.Add(1)
	s.sockets = append(s.sockets, k)
	s.notifyLocked()
	return len(s.sockets), true
}

// removeSocket unregisters a socket, and ends the waits for its answers.
func (s *Server) removeSocket(k *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets = slices.DeleteFunc(s.sockets, func(o *socket) bool { return o == k })
	for _, c := range k.pending {
		close(c)
	}
	k.pending = nil
	s.notifyLocked()
	s.socketsDone.Done()
}

// readSocket reads answers until the socket is lost, and sends pings meanwhile.
func (s *Server) readSocket(k *socket) {
	done := make(chan struct{})
	var pings sync.WaitGroup
	if !k.silent {
		pings.Go(func() { k.pingLoop(s.o.PingInterval, done) })
	}
	defer pings.Wait()
	defer close(done)
	k.conn.SetReadLimit(maxFrame)
	_ = k.conn.SetReadDeadline(time.Now().Add(pongTimeout))
	k.conn.SetPongHandler(func(string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if k.draining {
			return nil
		}
		return k.conn.SetReadDeadline(time.Now().Add(pongTimeout))
	})
	for {
		_, raw, err := k.conn.ReadMessage()
		if err != nil {
			return
		}
		s.handleAck(k, raw)
	}
}

// handleAck matches an answer to its envelope. Others are ignored.
func (s *Server) handleAck(k *socket, raw []byte) {
	var a struct {
		Envelope string          `json:"envelope_id"`
		Payload  json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(raw, &a) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.deaf {
		return
	}
	select {
	case k.pending[a.Envelope] <- a.Payload: // an unknown envelope has a nil channel, which accepts nothing
	default:
	}
}

func (k *socket) pingLoop(every time.Duration, done <-chan struct{}) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			_ = k.conn.WriteControl(websocket.PingMessage, []byte("ping"), time.Now().Add(writeTimeout))
		}
	}
}

// send writes a message, or loses it if the socket is silent.
func (k *socket) send(v any) error {
	if k.silent {
		return nil
	}
	return k.writeJSON(v)
}

func (k *socket) writeJSON(v any) error {
	k.writeMu.Lock()
	defer k.writeMu.Unlock()
	_ = k.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	return k.conn.WriteJSON(v)
}

func hello(n int) object {
	return object{
		"type": "hello", "num_connections": n, "connection_info": object{"app_id": AppID},
		"debug_info": object{"host": "applink-fake", "build_number": 1, "approximate_connection_time": 18060},
	}
}

func disconnect(reason string) object {
	return object{"type": "disconnect", "reason": reason, "debug_info": object{"host": "applink-fake"}}
}

// deliverSocket sends an interaction over the newest socket that was not asked to disconnect.
func (s *Server) deliverSocket(ctx context.Context, i Interaction, f Fault, r *Receipt) (answer []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.ResponseTimeout, ErrNoResponse)
	defer cancel()
	e := i.envelope()
	// With DropAfter the app may acknowledge before the connection is closed; that acknowledgement must not count.
	k, answers := s.reserveEnvelope(e["envelope_id"].(string), f.Kind == DropAfter)
	if k == nil {
		return nil, ErrNoSocket
	}
	defer s.releaseEnvelope(k, e["envelope_id"].(string))
	times := 1
	if f.Kind == Duplicated {
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
		if answer, err = receiveAnswer(ctx, answers); err != nil {
			return nil, err
		}
		r.Responses++
	}
	return answer, nil
}

func receiveAnswer(ctx context.Context, answers <-chan json.RawMessage) ([]byte, error) {
	select {
	case answer, ok := <-answers:
		if !ok {
			return nil, ErrDropped
		}
		return answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (i Interaction) envelope() object {
	kind := "interactive"
	if i.Kind == SlashCommand {
		kind = "slash_commands"
	}
	return object{
		"envelope_id": rand.Text(), "type": kind, "accepts_response_payload": i.Kind == SlashCommand, "payload": i.payload(),
	}
}

// reserveEnvelope chooses a socket and makes room for an envelope's answers. A deaf socket loses them.
func (s *Server) reserveEnvelope(envelope string, deaf bool) (*socket, <-chan json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Backward(s.sockets) {
		if !k.draining {
			k.deaf = k.deaf || deaf
			answers := make(chan json.RawMessage, 2)
			k.pending[envelope] = answers
			return k, answers
		}
	}
	return nil, nil
}

func (s *Server) releaseEnvelope(k *socket, envelope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(k.pending, envelope)
}

// Sockets returns the number of open sockets.
func (s *Server) Sockets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sockets)
}

// AwaitSockets waits until exactly n open sockets were not asked to disconnect.
func (s *Server) AwaitSockets(ctx context.Context, n int) error {
	return s.await(ctx, func() bool {
		staying := 0
		for _, k := range s.sockets {
			if !k.draining {
				staying++
			}
		}
		return staying == n
	})
}

// Disconnect asks all apps to reconnect. The reason is warning or refresh_requested, or link_disabled when Socket Mode
// is switched off. Sockets that are still open after ten seconds are closed.
func (s *Server) Disconnect(reason string) {
	for _, k := range s.drainSockets() {
		_ = k.send(disconnect(reason)) // fails if it was lost meanwhile
		_ = k.conn.SetReadDeadline(time.Now().Add(drainTimeout))
	}
}

// DropSockets closes all connections without a message.
func (s *Server) DropSockets() {
	for _, k := range s.drainSockets() {
		_ = k.conn.NetConn().Close()
	}
}

func (s *Server) drainSockets() []*socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.sockets {
		k.draining = true
	}
	s.notifyLocked()
	return slices.Clone(s.sockets)
}

// Close closes all sockets, rejects new ones, and waits until they have ended. Everything else still works. It may be
// called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.DropSockets()
	s.socketsDone.Wait()
	s.client.CloseIdleConnections()
}
