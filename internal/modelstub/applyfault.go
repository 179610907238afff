package modelstub

import (
	"net"
	"net/http"
)

// applyFault breaks an answer that has begun. Nil means that it goes on.
func (c *call) applyFault(out *answerWriter) error {
	if err := out.flush(); err != nil {
		return err
	}
	switch c.fault.Kind {
	case KindHangAfter:
		return c.hang()
	case KindResetAfter:
		return c.resetConn()
	case KindTruncate:
		c.finish(faulted)
		return errFaultInjected
	case KindMalformed:
		return c.corruptFraming()
	case KindErrorEvent:
		return c.sendErrorEvent(out)
	case KindSilence:
		return c.sleep(c.fault.Delay)
	}
	return nil
}

// hang keeps the call, and its slot, until the client or the stub gives up. At
// the bound the connection is broken.
func (c *call) hang() error {
	if err := c.sleep(MaxFaultDelay); err != nil {
		return err
	}
	c.finish(faulted)
	c.abortConn = true
	return errFaultInjected
}

// failWithStatus answers as an overloaded or broken server does, before any
// work: it takes no slot.
func (c *call) failWithStatus() error {
	if err := c.sleep(c.fault.Latency); err != nil {
		return err
	}
	c.finish(faulted)
	if c.fault.RetryAfter != "" {
		c.w.Header().Set("Retry-After", c.fault.RetryAfter)
	}
	c.writeError(faultError(c.fault.Status))
	return errFaultInjected
}

func (c *call) sendErrorEvent(out *answerWriter) error {
	c.finish(faulted)
	data := sseFrame("", faultError(http.StatusInternalServerError).body())
	if err := out.write(data); err != nil {
		return err
	}
	if out.compressor != nil {
		_ = out.compressor.Close() // the call is over either way
	}
	return errFaultInjected
}

// resetConn closes the connection with a TCP reset where there is TCP.
func (c *call) resetConn() error {
	c.finish(faulted)
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.abortConn = true // no connection of its own: abort the call
		return errFaultInjected
	}
	conn = innerConn(conn)
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // if it fails, the close is an ordinary one
	}
	_ = conn.Close()
	return errFaultInjected
}

// corruptFraming writes what is no chunk where a chunk must come.
func (c *call) corruptFraming() error {
	c.finish(faulted)
	conn, buffered, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.abortConn = true
		return errFaultInjected
	}
	_, _ = buffered.WriteString("zz\r\nthis is no chunk\r\n")
	_ = buffered.Flush() // a client that left has lost nothing
	_ = conn.Close()
	return errFaultInjected
}

// innerConn looks below TLS, which knows no linger and says goodbye on closing.
func innerConn(conn net.Conn) net.Conn {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return inner.NetConn()
	}
	return conn
}
