package outboxtest

import (
	"errors"
	"testing"

	"headgate/alerts"
)

func TestMemory(t *testing.T) {
	Run(t, func(t *testing.T) (alerts.Outbox, func(*testing.T) alerts.Outbox) {
		m := NewMemory()
		return m, func(*testing.T) alerts.Outbox { return m }
	})
}

func TestMemoryFailsWhereTheHookSays(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		at      string
		written bool
	}{{"save", false}, {"save done", true}}
	for _, tt := range tests {
		t.Run(tt.at, func(t *testing.T) {
			m := NewMemory()
			m.SetHook(func(op string) error {
				if op == tt.at {
					return broken
				}
				return nil
			})
			if err := m.Save(t.Context(), alerts.Changes{Add: []alerts.Delivery{FullDelivery("i", 1)}}); !errors.Is(err, broken) {
				t.Errorf("Save: %v, want the hook's error", err)
			}
			if written := len(m.All()) == 1; written != tt.written {
				t.Errorf("written: %v, want %v", written, tt.written)
			}
		})
	}
}

func TestMemoryIsDownUntilItIsNot(t *testing.T) {
	m := NewMemory()
	m.SetDown(true)
	if _, err := m.Pending(t.Context(), 1); !errors.Is(err, ErrDown) {
		t.Errorf("Pending: %v, want ErrDown", err)
	}
	if _, err := m.Thread(t.Context(), "i", alerts.ToPage); !errors.Is(err, ErrDown) {
		t.Errorf("Root: %v, want ErrDown", err)
	}
	m.SetDown(false)
	mustSave(t, m, alerts.Changes{Add: []alerts.Delivery{FullDelivery("i", 1)}})
	if n := len(mustPending(t, m, 10)); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}
