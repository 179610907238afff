package modelstub

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Control headers of a request. A value that cannot be read is answered with a
// 400 that says what would be right.
const (
	// HeaderFault asks for a [Fault], as read by [ParseFault].
	HeaderFault = "Stub-Fault"
	// HeaderService replaces the service time of the call: a duration.
	HeaderService = "Stub-Service"
	// HeaderChunks is the number of text chunks in a streamed answer, 1 to
	// 10000. The answer grows to at least as many tokens.
	HeaderChunks = "Stub-Chunks"
	// HeaderStream answers with the odd stream of that name; see [EdgeCaseStreams].
	HeaderStream = "Stub-Stream"
	// HeaderEncoding compresses the answer: gzip, br or zstd.
	HeaderEncoding = "Stub-Encoding"
	// HeaderTrailer, when not empty, adds the trailer [TrailerChecksum].
	HeaderTrailer = "Stub-Trailer"
	// TrailerChecksum is the name of a response trailer: the CRC-32 (IEEE) of
	// the body as sent, in hexadecimal.
	TrailerChecksum = "Stub-Checksum"
)

const maxChunks = 10_000

// options are what the control headers of one request ask for.
type options struct {
	fault    *Fault
	service  *time.Duration
	chunks   int
	stream   *EdgeCaseStream
	encoding string
	trailer  bool
}

func parseOptions(h http.Header) (options, error) {
	o := options{encoding: h.Get(HeaderEncoding), trailer: h.Get(HeaderTrailer) != ""}
	for _, step := range []struct {
		name string
		read func(string) error
	}{
		{HeaderFault, o.readFault},
		{HeaderService, o.readService},
		{HeaderChunks, o.readChunks},
		{HeaderStream, o.readStream},
		{HeaderEncoding, checkEncoding},
	} {
		value := h.Get(step.name)
		if value == "" {
			continue
		}
		if err := step.read(value); err != nil {
			return options{}, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return o, nil
}

func (o *options) readFault(s string) error {
	f, err := ParseFault(s)
	o.fault = &f
	return err
}

func (o *options) readService(s string) error {
	d, err := parseDuration(s, MaxService)
	o.service = &d
	return err
}

func (o *options) readChunks(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxChunks {
		return fmt.Errorf("%q, want 1 to %d", clip(s), maxChunks)
	}
	o.chunks = n
	return nil
}

func (o *options) readStream(s string) error {
	var names []string
	for _, odd := range EdgeCaseStreams() {
		if odd.Name == s {
			o.stream = &odd
			return nil
		}
		names = append(names, odd.Name)
	}
	return fmt.Errorf("%q, want one of %s", clip(s), strings.Join(names, ", "))
}
