package sqlite

import (
	"errors"
	"testing"

	"headgate/proxy/admission"
)

// TestLockExclusive: a probe fails while the record is locked and leaves no lock
// behind, also with a relative data directory.
func TestLockExclusive(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{t.TempDir(), "data", "./with space?/%41#b"} {
		s := openTestStore(t, dir)
		if err := ProbeWrite(t.Context(), dir); err != nil {
			t.Errorf("%s: probe of an unlocked record: %v", dir, err)
		}
		mustRecord(t, s, 0, newModeChange("p", admission.Observe))
		unlock, err := LockExclusive(t.Context(), dir)
		if err != nil {
			t.Errorf("%s: lock: %v", dir, err)
			continue
		}
		if err := ProbeWrite(t.Context(), dir); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: probe of a locked record: %v, want ErrBusy", dir, err)
		}
		if err := unlock(t.Context()); err != nil {
			t.Errorf("%s: unlock: %v", dir, err)
		}
		mustRecord(t, s, 0, newModeChange("p", admission.Observe))
		closeStore(t, s)
	}
	if err := ProbeWrite(t.Context(), t.TempDir()); err == nil {
		t.Error("a probe of a directory without a record succeeded")
	}
}
