package modelstub

import (
	"errors"
	"hash"
	"hash/crc32"
	"net/http"
	"strconv"
)

// answerWriter is the way of an answer's bytes to the client: compressed, dripped
// and summed as the call asks.
type answerWriter struct {
	call        *call
	compressor  compressor // nil when the stream is not compressed
	checksum    hash.Hash32
	dripStarted bool // a byte has been dripped
}

func (c *call) newAnswerWriter() *answerWriter {
	return &answerWriter{call: c, checksum: crc32.NewIEEE()}
}

func (o *answerWriter) compressStream(encoding string) error {
	if encoding == "" {
		return nil
	}
	packer, err := newCompressor(encoding, writerFunc(o.writeRaw))
	o.compressor = packer
	return err
}

type writerFunc func([]byte) (int, error)

// Write calls the function.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o *answerWriter) write(p []byte) error {
	var err error
	if o.compressor != nil {
		_, err = o.compressor.Write(p)
	} else {
		_, err = o.writeRaw(p)
	}
	return err
}

// writeLast writes the end of the answer. The call is counted as ended just
// before the final byte, once everything before it has been taken.
func (o *answerWriter) writeLast(p []byte) error {
	split := max(len(p)-1, 0)
	if err := o.write(p[:split]); err != nil {
		return err
	}
	if err := o.call.endCause(); err != nil {
		return err
	}
	o.call.finish(completed)
	// From here on the answer counts as given: whether the client still takes
	// the last byte is not known to a real server either.
	_ = o.write(p[split:])
	if o.compressor != nil {
		_ = o.compressor.Close()
	}
	o.setTrailer()
	return nil
}

func (o *answerWriter) setTrailer() {
	if o.call.options.trailer {
		o.call.w.Header().Set(TrailerChecksum, strconv.FormatUint(uint64(o.checksum.Sum32()), 16))
	}
}

// flush sends what was written on its way.
func (o *answerWriter) flush() error {
	if o.compressor != nil {
		if err := o.compressor.Flush(); err != nil {
			return err
		}
	}
	return o.flushRaw()
}

func (o *answerWriter) flushRaw() error {
	err := http.NewResponseController(o.call.w).Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return errors.Join(errClientGone, err)
}

func (o *answerWriter) writeRaw(p []byte) (int, error) {
	_, _ = o.checksum.Write(p) // a hash never fails
	if o.call.fault.Kind == KindDrip {
		return o.drip(p)
	}
	n, err := o.call.w.Write(p)
	if err != nil {
		err = errors.Join(errClientGone, err)
	}
	return n, err
}

// drip writes one byte at a time, each with a pause before it except the first
// of the answer.
func (o *answerWriter) drip(p []byte) (int, error) {
	for i := range p {
		if o.dripStarted {
			if err := o.call.sleep(o.call.fault.Delay); err != nil {
				return i, err
			}
		}
		o.dripStarted = true
		if _, err := o.call.w.Write(p[i : i+1]); err != nil {
			return i, errors.Join(errClientGone, err)
		}
		if err := o.flushRaw(); err != nil {
			return i, err
		}
	}
	return len(p), nil
}
