package harness

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// UnusedAddress returns a loopback address where nothing listens.
func UnusedAddress(t testing.TB) string {
	t.Helper()
	l := listen(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// UnusedURL returns the URL of an [UnusedAddress].
func UnusedURL(t testing.TB) string {
	t.Helper()
	return "http://" + UnusedAddress(t)
}

// SilentListener returns the URL of a listener that accepts connections and never sends
// anything.
func SilentListener(t testing.TB) string {
	t.Helper()
	l := listen(t)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				group.Go(func() {
					_, _ = io.Copy(io.Discard, c) // until the client closes the connection
					_ = c.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
	})
	return "http://" + l.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
