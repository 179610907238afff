package app

import (
	"hash"
	"hash/fnv"
	"io"
	"sync"
)

// countedBody is a body that is counted and summed up while it is read. When it has
// come to its end, or is closed before, it tells once.
type countedBody struct {
	io.ReadCloser
	sum   hash.Hash64
	n     int64
	once  sync.Once
	onEnd func(n int64, sum uint64, whole bool)
}

// countBody lets tell know of a body that was read. It was whole if its end was come to.
func countBody(body io.ReadCloser, tell func(n int64, sum uint64, whole bool)) io.ReadCloser {
	return &countedBody{ReadCloser: body, sum: fnv.New64a(), onEnd: tell}
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.sum.Write(p[:n]) // never fails
	c.n += int64(n)
	if err != nil {
		c.finish(err == io.EOF)
	}
	return n, err
}

func (c *countedBody) Close() error {
	c.finish(false)
	return c.ReadCloser.Close()
}

func (c *countedBody) finish(whole bool) {
	c.once.Do(func() { c.onEnd(c.n, c.sum.Sum64(), whole) })
}

// firstByteBody is a body that tells when its first byte comes, once.
type firstByteBody struct {
	io.ReadCloser
	onFirstByte func()
}

func (o *firstByteBody) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if n > 0 && o.onFirstByte != nil {
		o.onFirstByte()
		o.onFirstByte = nil
	}
	return n, err
}
