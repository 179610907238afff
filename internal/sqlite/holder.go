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

// maxHolder bounds what is read from a lock file.
const maxHolder = 4096

// Holder is the process that holds a data directory. Fields that could not be
// learnt are zero.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Listen  string    `json:"listen"` // address of the admin listener, as configured
}

// String names the holder in the middle of a sentence.
func (h Holder) String() string {
	if h == (Holder{}) {
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

// write puts the holder into its lock file. A reader may come at any moment:
// it takes the first line, so what is left of a longer one does not matter.
func (h Holder) write(f *os.File) error {
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

// readHolder returns who is written in a lock file, or nobody when that makes no
// sense: anyone may have written there.
func readHolder(r io.ReaderAt) Holder {
	text, _ := io.ReadAll(io.NewSectionReader(r, 0, maxHolder))
	line, _, ok := bytes.Cut(text, []byte("\n"))
	var h Holder
	if !ok || json.Unmarshal(line, &h) != nil || h.PID <= 0 || !plain(h.Host) || !plain(h.Listen) {
		return Holder{}
	}
	return h
}

// plain says whether a text can be shown to people as it is.
func plain(s string) bool {
	return len(s) <= 255 && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0
}
