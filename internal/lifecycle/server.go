package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Loopback is the address of a server on a free port that only this machine can reach.
const Loopback = "127.0.0.1:0"

// Bounds of what a slow or greedy client can hold of a server. Whole requests and responses have no bound: long ones are
// normal here, and handlers set deadlines for their parts.
const (
	readHeaderTimeout = 10 * time.Second
	keepAliveTimeout  = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Server is an HTTP server with its listener. Its methods may be called from any goroutine, Serve only once.
type Server struct {
	name     string
	http     *http.Server
	listener net.Listener
	cancel   context.CancelCauseFunc // ends the contexts of requests
	task     *Task                   // nil before Serve
	err      error                   // with which it stopped unexpectedly; read it after task
}

// Listen opens a listener for h at an address. Connections wait there until Serve is called. The name is for errors; the
// log gets what clients do wrong, at level debug. Stop or Close the server in any case.
func Listen(name, address string, h http.Handler, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newServer(name, l, h, log), nil
}

func newServer(name string, l net.Listener, h http.Handler, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Server{name: name, listener: l, cancel: cancel, http: &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: keepAliveTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}}
}

// SetTimeouts replaces the times that a header may take and that a connection is kept without a request. Call it before
// Serve.
func (s *Server) SetTimeouts(header, idle time.Duration) {
	s.http.ReadHeaderTimeout, s.http.IdleTimeout = header, idle
}

// Addr returns the address of the listener.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the address of the listener as a URL without a path.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Serve accepts connections until the server is stopped. If it stops unexpectedly, Stop and Close return the error, and
// failed gets it at once. That channel must have room for it; it may be nil.
func (s *Server) Serve(failed chan<- error) {
	s.task = Go(func(context.Context) {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("%s: %w", s.name, err)
			if failed != nil {
				failed <- s.err
			}
		}
	})
}

// Drain accepts no more connections, and waits until the requests in flight have ended or ctx ends.
func (s *Server) Drain(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Cancel ends the contexts of all requests, with a cause. A server that serves on must not be cancelled.
func (s *Server) Cancel(cause error) { s.cancel(cause) }

// Stop drains the server, cuts off what is left when ctx ends, and waits until the server has ended.
func (s *Server) Stop(ctx context.Context) error {
	if s.Drain(ctx) == nil {
		return s.ended(nil)
	}
	return s.Close()
}

// Close cuts off the requests in flight, and waits until the server has ended. On a nil Server it does nothing.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return s.ended(s.http.Close())
}

func (s *Server) ended(err error) error {
	s.cancel(nil)
	if s.task == nil { // the http.Server does not know the listener yet
		return errors.Join(err, s.listener.Close())
	}
	<-s.task.Done()
	return errors.Join(err, s.err)
}
