package proxy

import "net/http"

// abortConn ends an answer so that no client takes what has come for the whole:
// it panics with http.ErrAbortHandler. That closes the connection, by which
// HTTP/1.1 can tell, since the last chunk or some announced bytes are missing.
// To HTTP/1.0 an answer without a length ends when the connection closes (RFC
// 9112, 6.3), so there only a reset is an error. Old versions of nginx speak
// HTTP/1.0 to what is behind them.
func abortConn(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		resetConn(w)
	}
	panic(http.ErrAbortHandler)
}

// resetConn drops the connection to the client, and what has not been sent
// yet. What cannot be reset is left for net/http to close.
func resetConn(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // closing is all that can be done without it
	}
	_ = conn.Close() // it is gone either way
}
