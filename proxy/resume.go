package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"
)

// streamErrorLimit is how much of an upstream's error is told inside a stream.
const streamErrorLimit = 64 << 10

// resumeStream passes the body on into a stream that has been kept alive so far.
// What is not a stream cannot be told there but as an error.
func (t *task) resumeStream(ctx context.Context, res *http.Response, dog *watchdog) *failure {
	plain := isIdentity(res.Header.Get("Content-Encoding"))
	if res.StatusCode != http.StatusOK || !isEventStream(res.Header.Get("Content-Type")) || !plain {
		return t.resumeWithError(res, dog)
	}
	end := t.newDetector(res, true)
	defer end.close()
	t.keepAliveSent = false // from here on, only breaking off tells an error
	if f := t.copyBody(ctx, res, dog, end); f != nil {
		return f
	}
	t.setOutcome(res.StatusCode, end.upstreamFailed())
	return nil
}

// resumeWithError tells an answer that is not a stream inside one.
func (t *task) resumeWithError(res *http.Response, dog *watchdog) *failure {
	dog.start()
	body, _ := io.ReadAll(io.LimitReader(res.Body, streamErrorLimit)) // what has come is good enough
	dog.stop()
	t.setOutcome(res.StatusCode, res.StatusCode == http.StatusOK)
	var line bytes.Buffer
	if gjson.GetBytes(body, "error").IsObject() && json.Compact(&line, body) == nil {
		writeStreamError(t.w, t.rc, line.Bytes())
		return nil
	}
	return &failure{
		status: res.StatusCode, kind: "server_error", code: "upstream_error", outcome: t.obs.Outcome,
		message: fmt.Sprintf("The model endpoint answered with status %d.", res.StatusCode),
	}
}

// writeStreamError tells a failure inside a stream whose status has gone out.
func writeStreamError(w http.ResponseWriter, rc *http.ResponseController, body []byte) {
	// The client may have gone; there is nobody left to tell.
	_, _ = w.Write(append(append([]byte("data: "), bytes.TrimSpace(body)...), "\n\n"...))
	_ = rc.Flush()
}
