package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// answerDetector is an ending with a decoder before it where the answer is compressed.
type answerDetector struct {
	endDetector
	uncompressed bool
	pipe         *io.PipeWriter // to the decoder; nil for a plain answer
	closeDecoder func()         // waits for the decoder
}

// newDetector chooses what to watch an answer for.
func (t *task) newDetector(res *http.Response, streams bool) answerDetector {
	end := t.newPlainDetector(res, streams)
	encoding := res.Header.Get("Content-Encoding")
	if _, open := end.(opaqueEnd); open || isIdentity(encoding) {
		return answerDetector{endDetector: end, uncompressed: true}
	}
	return newDecodingDetector(end, encoding)
}

func (t *task) newPlainDetector(res *http.Response, streams bool) endDetector {
	switch {
	case res.StatusCode >= 300 || res.ContentLength == 0:
		return opaqueEnd{}
	case streams && t.proto != protocolOther:
		return &sseEnd{protocol: t.proto}
	case !streams && isJSON(res.Header.Get("Content-Type")):
		return &jsonEnd{}
	default:
		return opaqueEnd{}
	}
}

// terminated tells whether the upstream has said all that it has to say, so that one
// need not wait for it to hang up. Of a compressed answer only bodyComplete can tell:
// its decoder is a step behind.
func (w answerDetector) terminated() bool {
	s, ok := w.endDetector.(*sseEnd)
	return ok && s.done
}

// bodyComplete is over for an answer of which no more bytes will be shown.
func (w answerDetector) closeAndTerminated() bool {
	w.close()
	if d, ok := w.endDetector.(*decodedDetector); ok {
		w.endDetector = d.endDetector
	}
	return w.terminated()
}

// observe shows the next bytes to the ending.
func (w answerDetector) observe(p []byte) {
	if w.uncompressed {
		_, _ = w.endDetector.Write(p) // never fails
		return
	}
	_, _ = w.pipe.Write(p) // fails only when the decoder has given up, which complete tells
}

// complete waits for the decoder, if there is one: the bytes are over.
func (w answerDetector) complete() bool {
	w.close()
	return w.endDetector.complete()
}

func (w answerDetector) close() {
	if w.closeDecoder != nil {
		w.closeDecoder()
	}
}

// newDecodingDetector watches a compressed answer through a decoder of its own. An encoding
// that is not known here ends where it ends.
func newDecodingDetector(end endDetector, encoding string) answerDetector {
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
	w := answerDetector{endDetector: &decodedDetector{endDetector: end, unknown: &unknown}, pipe: pipe}
	w.closeDecoder = sync.OnceFunc(func() {
		_ = pipe.Close()
		<-done
	})
	return w
}

// decodedDetector is an ending behind a decoder; read it once the decoder is done.
type decodedDetector struct {
	endDetector
	unknown *bool
}

func (d *decodedDetector) complete() bool { return *d.unknown || d.endDetector.complete() }
