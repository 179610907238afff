package modelstub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

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
	case "gzip":
		return gzip.NewWriter(w), nil
	case "br":
		return brotli.NewWriterLevel(w, 4), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	}
	return nil, checkEncoding(name)
}

func compress(name string, body []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := newCompressor(name, &b)
	if err != nil {
		return nil, err
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
