package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	loopback = "127.0.0.1:0"
	// readHeaderTimeout bounds what a slow client can hold of a site.
	readHeaderTimeout = 10 * time.Second
)

// httpServer is a server on a free address of loopback.
type httpServer struct {
	address string
	server  *http.Server
	served  chan struct{}
}

// newHTTPServer serves until close. When it stops by itself, failed hears of it, and
// must have room for that.
func newHTTPServer(name string, h http.Handler, failed chan<- error) (*httpServer, error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &httpServer{address: l.Addr().String(), served: make(chan struct{})}
	s.server = &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() {
		defer close(s.served)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("%s: %w", name, err)
		}
	}()
	return s, nil
}

// close breaks off what is being served.
func (s *httpServer) close() error {
	err := s.server.Close()
	<-s.served
	return err
}
