package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// watched is an ending with a decoder before it where the answer is compressed.
type watched struct {
	ending
	plain  bool
	pipe   *io.PipeWriter // to the decoder; nil for a plain answer
	closed func()         // waits for the decoder
}

// endingOf chooses what to watch an answer for.
func (t *task) endingOf(res *http.Response, streams bool) watched {
	end := t.plainEnding(res, streams)
	encoding := res.Header.Get("Content-Encoding")
	if _, open := end.(anyEnd); open || isIdentity(encoding) {
		return watched{ending: end, plain: true}
	}
	return decoded(end, encoding)
}

func (t *task) plainEnding(res *http.Response, streams bool) ending {
	switch {
	case res.StatusCode >= 300 || res.ContentLength == 0:
		return anyEnd{}
	case streams && t.proto != protocolOther:
		return &sseEnd{protocol: t.proto}
	case !streams && isJSON(res.Header.Get("Content-Type")):
		return &jsonEnd{}
	default:
		return anyEnd{}
	}
}

// over tells whether the upstream has said all that it has to say, so that one
// need not wait for it to hang up. Of a compressed answer only atEnd can tell:
// its decoder is a step behind.
func (w watched) over() bool {
	s, ok := w.ending.(*sseEnd)
	return ok && s.done
}

// atEnd is over for an answer of which no more bytes will be shown.
func (w watched) atEnd() bool {
	w.close()
	if d, ok := w.ending.(*decodedEnd); ok {
		w.ending = d.ending
	}
	return w.over()
}

// look shows the next bytes to the ending.
func (w watched) look(p []byte) {
	if w.plain {
		_, _ = w.ending.Write(p) // never fails
		return
	}
	_, _ = w.pipe.Write(p) // fails only when the decoder has given up, which complete tells
}

// complete waits for the decoder, if there is one: the bytes are over.
func (w watched) complete() bool {
	w.close()
	return w.ending.complete()
}

func (w watched) close() {
	if w.closed != nil {
		w.closed()
	}
}

// decoded watches a compressed answer through a decoder of its own. An encoding
// that is not known here ends where it ends.
func decoded(end ending, encoding string) watched {
	r, pipe := io.Pipe()
	done := make(chan struct{})
	unknown := false
	go func() {
		defer close(done)
		dec, err := newDecoder(encoding, r)
		if err == nil {
			_, err = io.Copy(end, dec)
			_ = dec.Close()
		}
		unknown = errors.Is(err, errUnknownEncoding)
		_ = r.CloseWithError(err)
	}()
	w := watched{ending: &decodedEnd{ending: end, unknown: &unknown}, pipe: pipe}
	w.closed = sync.OnceFunc(func() {
		_ = pipe.Close()
		<-done
	})
	return w
}

// decodedEnd is an ending behind a decoder; read it once the decoder is done.
type decodedEnd struct {
	ending
	unknown *bool
}

func (d *decodedEnd) complete() bool { return *d.unknown || d.ending.complete() }
