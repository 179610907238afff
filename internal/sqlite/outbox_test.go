package sqlite

import (
	"testing"

	"headgate/alerts"
	"headgate/alerts/outboxtest"
)

// TestOutbox holds every kind of Store against what the deliverer's port promises.
func TestOutbox(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		outboxtest.Run(t, func(t *testing.T) (alerts.Outbox, func(*testing.T) alerts.Outbox) {
			dir := t.TempDir()
			s := openTestStore(t, dir)
			return s.Outbox(), func(t *testing.T) alerts.Outbox {
				closeStore(t, s)
				return openTestStore(t, dir).Outbox()
			}
		})
	})
	t.Run("ephemeral", func(t *testing.T) {
		outboxtest.Run(t, func(t *testing.T) (alerts.Outbox, func(*testing.T) alerts.Outbox) {
			return storeKinds["ephemeral"](t).Outbox(), nil
		})
	})
}
