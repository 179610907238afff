package tsdb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// A disk that takes no more chunks ends neither the process nor the keeping of
// samples, not even when all is closed.
func TestChunksThatCannotBeWritten(t *testing.T) {
	r := newFixture(t, nil)
	chunks := filepath.Join(r.o.Dir, "chunks_head")
	if err := os.RemoveAll(chunks); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chunks, nil, 0o600); err != nil { // nothing can be made in it
		t.Fatal(err)
	}
	for i := range 600 { // more than a chunk holds
		r.now = epoch.Add(time.Duration(i) * time.Second)
		if err := r.Append(t.Context(), r.now, []Sample{{Labels: labels.FromStrings("__name__", "headgate_x"), V: float64(i)}}); err != nil {
			t.Fatalf("sample %d: %v", i, err)
		}
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("closing: %v", err)
	}
}
