package harness

import (
	"bytes"
	"encoding/json"
	"sync"
)

// maxLog bounds what is kept of one process's output, in bytes.
const maxLog = 4 << 20

// logBuffer is the output of a process. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write never fails; what is too much is dropped.
func (r *logBuffer) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf.Len() < maxLog {
		r.buf.Write(p)
	}
	return len(p), nil
}

func (r *logBuffer) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// findEntry returns the first JSON line whose msg is message.
func (r *logBuffer) findEntry(message string) (map[string]any, bool) {
	for line := range bytes.Lines([]byte(r.String())) {
		var fields map[string]any
		if json.Unmarshal(line, &fields) == nil && fields["msg"] == message {
			return fields, true
		}
	}
	return nil, false
}
