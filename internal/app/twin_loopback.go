package app

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// loopbackServer is a server on a free address of loopback, for what a drill brings along.
type loopbackServer struct {
	address string
	server  *http.Server
	served  chan error
}

func startLoopbackServer(h http.Handler) (*loopbackServer, error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return nil, err
	}
	s := &loopbackServer{address: l.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

// url is the site's, with a path.
func (s *loopbackServer) url(path string) string { return "http://" + s.address + path }

// close breaks off what is being served.
func (s *loopbackServer) close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
