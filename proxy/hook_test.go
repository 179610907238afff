package proxy

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"headgate/proxy/admission"
)

// hookedPolicy is a policy that does something first, so that a test can act between
// two decisions of the gate. The hooks run under the gate's lock.
type hookedPolicy struct {
	admission.Policy
	onAdmit, onDispatch func()
}

func (h hookedPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	if h.onAdmit != nil {
		h.onAdmit()
	}
	return h.Policy.Admit(v, t)
}

func (h hookedPolicy) Dispatch(v admission.View, t admission.Task) admission.Reason {
	if h.onDispatch != nil {
		h.onDispatch()
	}
	return h.Policy.Dispatch(v, t)
}

// serveRecorded serves a request without a connection, and tells whether the answer
// was broken off.
func (r *testProxy) serveRecorded(req *http.Request) (rec *httptest.ResponseRecorder, aborted bool) {
	r.Helper()
	rec = httptest.NewRecorder()
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			aborted = true
		} else if v != nil {
			panic(v)
		}
	}()
	r.proxy.ServeHTTP(rec, req)
	return rec, false
}

// bufferWriter is a response that goes nowhere.
type bufferWriter struct {
	header http.Header
	body   strings.Builder
}

func newBufferWriter() *bufferWriter { return &bufferWriter{header: make(http.Header)} }

func (c *bufferWriter) Header() http.Header         { return c.header }
func (c *bufferWriter) WriteHeader(int)             {}
func (c *bufferWriter) Write(p []byte) (int, error) { return c.body.Write(p) }
func (c *bufferWriter) Flush()                      {}

func discardSlog() *slog.Logger { return slog.New(slog.DiscardHandler) }
