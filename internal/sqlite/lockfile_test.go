package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHolderFile: a lock file may have any content.
func TestHolderFile(t *testing.T) {
	good := `{"pid":7,"host":"a","started":"2026-03-01T09:00:00Z","listen":"127.0.0.1:1"}` + "\n"
	for text, want := range map[string]string{
		good:                                     "process 7 on a, listening on 127.0.0.1:1, since 2026-03-01T09:00:00Z",
		good + "the end of a longer line":        "process 7 on a, listening on 127.0.0.1:1, since 2026-03-01T09:00:00Z",
		`{"pid":7,"host":"a"}` + "\n":            "process 7 on a, since 0001-01-01T00:00:00Z",
		strings.TrimSpace(good):                  "unknown process",
		"":                                       "unknown process",
		"\n":                                     "unknown process",
		"7\n":                                    "unknown process",
		`{"pid":-7,"host":"a"}` + "\n":           "unknown process",
		`{"pid":"7","host":"a"}` + "\n":          "unknown process",
		`{"pid":7,"host":"\u001b[2J"}` + "\n":    "unknown process",
		`{"pid":7,"listen":"a\nb"}` + "\n":       "unknown process",
		`{"pid":7,"started":"yesterday"}` + "\n": "unknown process",
		`{"pid":7,"host":"` + strings.Repeat("a", 5000) + `"}` + "\n": "unknown process",
	} {
		h := readLockOwner(bytes.NewReader([]byte(text)))
		wantContains(t, h.String(), want)
	}
}

// TestHolderWritten: what is written is read back, also over a longer line.
func TestHolderWritten(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, h := range []LockOwner{
		{PID: 12345, Host: strings.Repeat("h", 200), Started: time.Unix(1e9, 0).UTC(), Listen: "[::1]:8485"},
		{PID: 1, Host: "h", Started: time.Unix(2e9, 0).UTC()},
	} {
		if err := h.writeTo(f); err != nil {
			t.Fatal(err)
		}
		if got := readLockOwner(f); got != h {
			t.Errorf("%+v, want %+v", got, h)
		}
	}
}

// TestLooking: those who ask who is there do not keep a service from starting.
func TestLooking(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, openTestStore(t, dir))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if _, _, err := Running(dir); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for range 10 {
		s, err := Open(t.Context(), testOptions(dir))
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
	}
	close(stop)
	<-done
}

// FuzzHolder: for any content of a lock file, the holder's name fits on a line.
func FuzzHolder(f *testing.F) {
	f.Add([]byte(`{"pid":7,"host":"a","started":"2026-03-01T09:00:00Z","listen":"127.0.0.1:1"}` + "\n"))
	f.Add([]byte(`{"pid":1e3,"host":"` + "\xff\u202e" + `"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s := readLockOwner(bytes.NewReader(text)).String(); len(s) > 700 || clean(s, 700) != s {
			t.Fatalf("%q", s)
		}
	})
}
