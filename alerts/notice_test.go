package alerts_test

import (
	"testing"
	"time"

	"headgate/alerts"
)

// TestNotice: it goes where pages go, as a message of its own that disturbs nobody.
func TestNotice(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for routes, to := range map[alerts.Routes]alerts.Destination{
		{Page: "C1", Warn: "C2", Fallback: "C3"}: alerts.ToPage, {Fallback: "webhook"}: alerts.ToFallback,
	} {
		d := routes.NewNotice("id-1", "change-1-h2", "default", "it is still so", at)
		if d.Destination != to || !d.IsNotice() || d.Notification.Ping || d.Kind != alerts.Post || d.State != alerts.Queued || d.Notification.Event.Text != "it is still so" {
			t.Errorf("%+v: %+v", routes, d)
		}
		if again := routes.NewNotice("id-2", "change-1-h2", "default", "it is still so", at.Add(time.Second)); again.Key() != d.Key() {
			t.Errorf("one name, two keys: %v and %v", d.Key(), again.Key())
		}
		if (alerts.Delivery{}).IsNotice() {
			t.Error("everything is a notice")
		}
	}
}
