package app

import (
	"hash"
	"hash/fnv"
	"io"
	"sync"
)

// counted is a body that is counted and summed up while it is read. When it has
// come to its end, or is closed before, it tells once.
type counted struct {
	io.ReadCloser
	sum  hash.Hash64
	n    int64
	once sync.Once
	tell func(n int64, sum uint64)
}

func count(body io.ReadCloser, tell func(n int64, sum uint64)) io.ReadCloser {
	return &counted{ReadCloser: body, sum: fnv.New64a(), tell: tell}
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.sum.Write(p[:n]) // never fails
	c.n += int64(n)
	if err != nil {
		c.over()
	}
	return n, err
}

func (c *counted) Close() error {
	c.over()
	return c.ReadCloser.Close()
}

func (c *counted) over() { c.once.Do(func() { c.tell(c.n, c.sum.Sum64()) }) }
