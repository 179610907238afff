package modelstub

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// zstdWindow is the largest window that a request may ask the decoder to keep.
const zstdWindow = 8 << 20

// readBody returns the request body as sent, within the limit.
func (c *call) readBody() ([]byte, error) {
	limit := c.stub.config.MaxBody
	if c.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	body, err := readAtMost(c.r.Body, limit)
	var api *apiError
	if err != nil && !errors.As(err, &api) {
		return nil, fmt.Errorf("read request body: %w", errors.Join(errClientGone, err))
	}
	return body, err
}

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case n > limit:
		return nil, tooLarge(limit)
	}
	return b.Bytes(), nil
}

func tooLarge(limit int64) *apiError {
	return &apiError{
		status:  http.StatusRequestEntityTooLarge,
		message: fmt.Sprintf("The request body is larger than the limit of %d bytes.", limit),
		code:    "request_too_large",
	}
}

// decodeBody undoes the Content-Encoding of a request, within the limit.
func decodeBody(encoding string, body []byte, limit int64) ([]byte, error) {
	encoding = strings.ToLower(strings.TrimSpace(encoding))
	if encoding == "" || encoding == "identity" {
		return body, nil
	}
	reader, err := decoder(encoding, bytes.NewReader(body))
	if err == nil {
		defer reader.Close()
		body, err = readAtMost(reader, limit)
	}
	var api *apiError
	if err != nil && !errors.As(err, &api) {
		return nil, badRequest("", fmt.Sprintf("The request body is not valid %s: %v", encoding, err))
	}
	return body, err
}

func decoder(encoding string, r io.Reader) (io.ReadCloser, error) {
	switch encoding {
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return zlib.NewReader(r)
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, &apiError{
		status:  http.StatusUnsupportedMediaType,
		message: fmt.Sprintf("Content-Encoding %q is not supported: send gzip, deflate, br, zstd or identity.", clip(encoding)),
	}
}

// compressor is what the three encoders have in common.
type compressor interface {
	io.WriteCloser
	Flush() error
}

func checkEncoding(name string) error {
	switch name {
	case "gzip", "br", "zstd":
		return nil
	}
	return fmt.Errorf("%q, want gzip, br or zstd", clip(name))
}

// newCompressor returns nil for no encoding. Its output depends on the input
// alone: no time stamps, and no concurrency that would move block borders.
func newCompressor(name string, w io.Writer) (compressor, error) {
	switch name {
	case "":
		return nil, nil
	case "gzip":
		return gzip.NewWriter(w), nil
	case "br":
		return brotli.NewWriterLevel(w, 4), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	}
	return nil, checkEncoding(name)
}

// compress returns the body itself for no encoding.
func compress(name string, body []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := newCompressor(name, &b)
	if err != nil || z == nil {
		return body, err
	}
	if _, err = z.Write(body); err != nil {
		return nil, err
	}
	if err = z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encode writes JSON as a model server does: nothing escaped for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// Our own types always encode; what they echo was valid JSON on arrival.
		return []byte(`{"error":{"message":"the stub could not encode its answer","type":"server_error","param":null,"code":null}}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
