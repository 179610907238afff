package harness

import (
	"bytes"
	"encoding/json"
	"sync"
)

// maxLog bounds what is kept of one process's output, in bytes.
const maxLog = 4 << 20

// record is the output of a process. It is safe for concurrent use.
type record struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write never fails; what is too much is dropped.
func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all.Len() < maxLog {
		r.all.Write(p)
	}
	return len(p), nil
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// entry returns the first JSON line whose msg is message.
func (r *record) entry(message string) (map[string]any, bool) {
	for line := range bytes.Lines([]byte(r.String())) {
		var fields map[string]any
		if json.Unmarshal(line, &fields) == nil && fields["msg"] == message {
			return fields, true
		}
	}
	return nil, false
}
