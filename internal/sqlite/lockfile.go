package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
)

// maxLockFile bounds what is read from a lock file.
const maxLockFile = 4096

// LockOwner is the process that holds a data directory. Fields that could not be
// learnt are zero.
type LockOwner struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Listen  string    `json:"listen"` // address of the admin listener, as configured
}

// String names the holder in the middle of a sentence.
func (h LockOwner) String() string {
	if h == (LockOwner{}) {
		return "a process that has not said who it is"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "process %d on %s", h.PID, h.Host)
	if h.Listen != "" {
		fmt.Fprintf(&b, ", listening on %s", h.Listen)
	}
	fmt.Fprintf(&b, ", since %s", h.Started.UTC().Format(time.RFC3339))
	return b.String()
}

// writeTo puts the holder into its lock file. A reader may come at any moment:
// it takes the first line, so what is left of a longer one does not matter.
func (h LockOwner) writeTo(f *os.File) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := f.WriteAt(line, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(line)))
}

// readLockOwner returns who is written in a lock file, or nobody when that makes no
// sense: anyone may have written there.
func readLockOwner(r io.ReaderAt) LockOwner {
	text, _ := io.ReadAll(io.NewSectionReader(r, 0, maxLockFile))
	line, _, ok := bytes.Cut(text, []byte("\n"))
	var h LockOwner
	if !ok || json.Unmarshal(line, &h) != nil || h.PID <= 0 || !printable(h.Host) || !printable(h.Listen) {
		return LockOwner{}
	}
	return h
}

// printable says whether a text can be shown to people as it is.
func printable(s string) bool {
	return len(s) <= 255 && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0
}
