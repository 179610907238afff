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
	tell func(n int64, sum uint64, whole bool)
}

// count lets tell know of a body that was read. It was whole if its end was come to.
func count(body io.ReadCloser, tell func(n int64, sum uint64, whole bool)) io.ReadCloser {
	return &counted{ReadCloser: body, sum: fnv.New64a(), tell: tell}
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.sum.Write(p[:n]) // never fails
	c.n += int64(n)
	if err != nil {
		c.over(err == io.EOF)
	}
	return n, err
}

func (c *counted) Close() error {
	c.over(false)
	return c.ReadCloser.Close()
}

func (c *counted) over(whole bool) {
	c.once.Do(func() { c.tell(c.n, c.sum.Sum64(), whole) })
}

// opening is a body that tells when its first byte comes, once.
type opening struct {
	io.ReadCloser
	tell func()
}

func (o *opening) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if n > 0 && o.tell != nil {
		o.tell()
		o.tell = nil
	}
	return n, err
}
