package app

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// site is a server on a free address of loopback, for what a drill brings along.
type site struct {
	address string
	server  *http.Server
	served  chan error
}

func openSite(h http.Handler) (*site, error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return nil, err
	}
	s := &site{address: l.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

// url is the site's, with a path.
func (s *site) url(path string) string { return "http://" + s.address + path }

// close breaks off what is being served.
func (s *site) close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
