package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// TestLeave: a request that a command leaves reaches the service unchanged, is
// handled once, and also waits for the next start.
func TestLeave(t *testing.T) {
	dir, _ := newRecordDir(t)
	enforce := admission.Enforce
	order := control.ModeRequest{
		Action: control.SetMode, Mode: admission.Observe, Pool: "a", Expected: &enforce, DropOverdue: true, Actor: "anna", Reason: "two\nlines",
	}
	n, err := QueueRequest(t.Context(), dir, order) // nothing runs
	if err != nil || n != 1 {
		t.Fatalf("number %d, %v", n, err)
	}
	s := openTestStore(t, dir)
	got, err := s.QueuedRequests(t.Context(), 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	want := order
	want.Via, want.Reason = control.ViaRequest, "two lines"
	if diff := cmp.Diff(want, got[0].Mode); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mustRecord(t, s, n)
	if n, err = QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Restore}); err != nil || n != 2 { // beside the service
		t.Fatalf("number %d, %v", n, err)
	}
	if got, err := s.QueuedRequests(t.Context(), 0); err != nil || len(got) != 1 || got[0].Number != 2 {
		t.Errorf("%v, %v, want number 2 alone", got, err)
	}
	var writer string
	if err := s.reader.QueryRowContext(t.Context(), "SELECT writer FROM mode_requests").Scan(&writer); err != nil {
		t.Fatal(err)
	}
	wantContains(t, writer, "command ")
}

// TestLeaveRefuses: orders that a service would pass over are not left at all.
func TestLeaveRefuses(t *testing.T) {
	dir, path := newRecordDir(t)
	for name, o := range map[string]control.ModeRequest{
		"no action":       {},
		"first":           {Action: control.InitialMode},
		"unknown action":  {Action: "explode"},
		"unknown mode":    {Action: control.SetMode, Mode: 9},
		"long pool":       {Action: control.Rollback, Pool: strings.Repeat("p", maxName+1)},
		"strange pool":    {Action: control.Rollback, Pool: "a\nb"},
		"long actor":      {Action: control.Rollback, Actor: strings.Repeat("p", maxName+1)},
		"unknown expects": {Action: control.Rollback, Expected: new(admission.Mode(7))},
	} {
		if n, err := QueueRequest(t.Context(), dir, o); err == nil || n != 0 {
			t.Errorf("%s: number %d, %v", name, n, err)
		}
	}
	if _, err := QueueRequest(t.Context(), t.TempDir(), control.ModeRequest{Action: control.Rollback}); !errors.Is(err, ErrNoRecord) {
		t.Errorf("no record: %v, want ErrNone", err)
	}
	if _, err := QueueRequest(t.Context(), filepath.Join(dir, "no", "such"), control.ModeRequest{Action: control.Rollback}); !errors.Is(err, ErrNoRecord) {
		t.Errorf("no directory: %v, want ErrNone", err)
	}
	if _, err := QueueRequest(t.Context(), path, control.ModeRequest{Action: control.Rollback}); err == nil {
		t.Error("left in a file that is no directory")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := QueueRequest(ctx, dir, control.ModeRequest{Action: control.Rollback}); !errors.Is(err, ErrBusy) {
		t.Errorf("an ended context: %v, want ErrBusy", err)
	}
	s := openTestStore(t, dir)
	if got, err := s.QueuedRequests(t.Context(), 0); err != nil || len(got) != 0 {
		t.Errorf("left all the same: %v, %v", got, err)
	}
}

// TestReadChanges: a command reads as the service does, and makes no record where
// there is none.
func TestReadChanges(t *testing.T) {
	dir, _ := newRecordDir(t)
	page, next, err := ReadModeChanges(t.Context(), dir, control.AuditQuery{Limit: 1})
	if err != nil || len(page) != 1 || page[0].Pool != "b" || next == "" {
		t.Fatalf("%v, %q, %v", page, next, err)
	}
	page, next, err = ReadModeChanges(t.Context(), dir, control.AuditQuery{Limit: 1, After: next})
	if err != nil || len(page) != 1 || page[0].Pool != "a" || next != "" {
		t.Errorf("%v, %q, %v", page, next, err)
	}
	empty := t.TempDir()
	if _, _, err := ReadModeChanges(t.Context(), empty, control.AuditQuery{}); !errors.Is(err, ErrNoRecord) {
		t.Errorf("%v, want ErrNone", err)
	}
	if files, err := os.ReadDir(empty); err != nil || len(files) != 0 {
		t.Errorf("it made %v, %v", files, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // what SQLite made to read is for the owner alone, too
		if got := filePermissions(t, filepath.Join(dir, f.Name())); got != 0o600 {
			t.Errorf("%s: %v", f.Name(), got)
		}
	}
}
