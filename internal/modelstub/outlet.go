package modelstub

import (
	"errors"
	"hash"
	"hash/crc32"
	"net/http"
	"strconv"
)

// outlet is the way of an answer's bytes to the client: compressed, dripped
// and summed as the call asks.
type outlet struct {
	call   *call
	packer compressor // nil when the stream is not compressed
	sum    hash.Hash32
	begun  bool // a byte has been dripped
}

func (c *call) newOutlet() *outlet { return &outlet{call: c, sum: crc32.NewIEEE()} }

func (o *outlet) compressStream(encoding string) error {
	if encoding == "" {
		return nil
	}
	packer, err := newCompressor(encoding, writerFunc(o.writeRaw))
	o.packer = packer
	return err
}

type writerFunc func([]byte) (int, error)

// Write calls the function.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o *outlet) write(p []byte) error {
	var err error
	if o.packer != nil {
		_, err = o.packer.Write(p)
	} else {
		_, err = o.writeRaw(p)
	}
	return err
}

// writeLast writes the end of the answer. The call is counted as ended just
// before the final byte, once everything before it has been taken.
func (o *outlet) writeLast(p []byte) error {
	split := max(len(p)-1, 0)
	if err := o.write(p[:split]); err != nil {
		return err
	}
	if err := o.call.whyEnded(); err != nil {
		return err
	}
	o.call.leave(completed)
	// From here on the answer counts as given: whether the client still takes
	// the last byte is not known to a real server either.
	_ = o.write(p[split:])
	if o.packer != nil {
		_ = o.packer.Close()
	}
	o.setTrailer()
	return nil
}

func (o *outlet) setTrailer() {
	if o.call.options.trailer {
		o.call.w.Header().Set(TrailerChecksum, strconv.FormatUint(uint64(o.sum.Sum32()), 16))
	}
}

// flush sends what was written on its way.
func (o *outlet) flush() error {
	if o.packer != nil {
		if err := o.packer.Flush(); err != nil {
			return err
		}
	}
	return o.flushRaw()
}

func (o *outlet) flushRaw() error {
	err := http.NewResponseController(o.call.w).Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return errors.Join(errGone, err)
}

func (o *outlet) writeRaw(p []byte) (int, error) {
	_, _ = o.sum.Write(p) // a hash never fails
	if o.call.fault.Kind == KindDrip {
		return o.drip(p)
	}
	n, err := o.call.w.Write(p)
	if err != nil {
		err = errors.Join(errGone, err)
	}
	return n, err
}

// drip writes one byte at a time, each with a pause before it except the first
// of the answer.
func (o *outlet) drip(p []byte) (int, error) {
	for i := range p {
		if o.begun {
			if err := o.call.sleep(o.call.fault.Delay); err != nil {
				return i, err
			}
		}
		o.begun = true
		if _, err := o.call.w.Write(p[i : i+1]); err != nil {
			return i, errors.Join(errGone, err)
		}
		if err := o.flushRaw(); err != nil {
			return i, err
		}
	}
	return len(p), nil
}
