package modelstub

import (
	"net"
	"net/http"
)

// strike breaks an answer that has begun. Nil means that it goes on.
func (c *call) strike(out *outlet) error {
	if err := out.flush(); err != nil {
		return err
	}
	switch c.fault.Kind {
	case KindHangAfter:
		return c.hold()
	case KindResetAfter:
		return c.reset()
	case KindTruncate:
		c.leave(faulted)
		return errFaulted
	case KindMalformed:
		return c.breakFraming()
	case KindErrorEvent:
		return c.sendErrorEvent(out)
	case KindSilence:
		return c.sleep(c.fault.Delay)
	}
	return nil
}

// hold keeps the call, and its slot, until the client or the stub gives up. At
// the bound the connection is broken.
func (c *call) hold() error {
	if err := c.sleep(MaxFaultDelay); err != nil {
		return err
	}
	c.leave(faulted)
	c.breakOff = true
	return errFaulted
}

// failWithStatus answers as an overloaded or broken server does, before any
// work: it takes no slot.
func (c *call) failWithStatus() error {
	if err := c.sleep(c.fault.Latency); err != nil {
		return err
	}
	c.leave(faulted)
	if c.fault.RetryAfter != "" {
		c.w.Header().Set("Retry-After", c.fault.RetryAfter)
	}
	c.writeError(faultError(c.fault.Status))
	return errFaulted
}

func (c *call) sendErrorEvent(out *outlet) error {
	c.leave(faulted)
	data := frame("", faultError(http.StatusInternalServerError).body())
	if err := out.write(data); err != nil {
		return err
	}
	if out.packer != nil {
		_ = out.packer.Close() // the call is over either way
	}
	return errFaulted
}

// reset closes the connection with a TCP reset where there is TCP.
func (c *call) reset() error {
	c.leave(faulted)
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.breakOff = true // no connection of its own: abort the call
		return errFaulted
	}
	conn = unwrapped(conn)
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // if it fails, the close is an ordinary one
	}
	_ = conn.Close()
	return errFaulted
}

// breakFraming writes what is no chunk where a chunk must come.
func (c *call) breakFraming() error {
	c.leave(faulted)
	conn, buffered, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.breakOff = true
		return errFaulted
	}
	_, _ = buffered.WriteString("zz\r\nthis is no chunk\r\n")
	_ = buffered.Flush() // a client that left has lost nothing
	_ = conn.Close()
	return errFaulted
}

// unwrapped looks below TLS, which knows no linger and says goodbye on closing.
func unwrapped(conn net.Conn) net.Conn {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return inner.NetConn()
	}
	return conn
}
