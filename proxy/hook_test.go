package proxy

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"headgate/proxy/admission"
)

// hooked is a policy that does something first, so that a test can act between
// two decisions of the gate. The hooks run under the gate's lock.
type hooked struct {
	admission.Policy
	onAdmit, onDispatch func()
}

func (h hooked) Admit(v admission.View, t admission.Task) admission.Verdict {
	if h.onAdmit != nil {
		h.onAdmit()
	}
	return h.Policy.Admit(v, t)
}

func (h hooked) Dispatch(v admission.View, t admission.Task) admission.Reason {
	if h.onDispatch != nil {
		h.onDispatch()
	}
	return h.Policy.Dispatch(v, t)
}

// handle serves a request without a connection, and tells whether the answer
// was broken off.
func (r *rig) handle(req *http.Request) (rec *httptest.ResponseRecorder, aborted bool) {
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

// collector is a response that goes nowhere.
type collector struct {
	header http.Header
	body   strings.Builder
}

func newCollector() *collector { return &collector{header: make(http.Header)} }

func (c *collector) Header() http.Header         { return c.header }
func (c *collector) WriteHeader(int)             {}
func (c *collector) Write(p []byte) (int, error) { return c.body.Write(p) }
func (c *collector) Flush()                      {}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
