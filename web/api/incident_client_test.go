package api_test

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"headgate/web/api"
)

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s did not come", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestIncidentClient goes through everything over a real listener.
func TestIncidentClient(t *testing.T) {
	r := newEngineFixture(t, 5*time.Millisecond)
	s := httptest.NewServer(r.handler)
	defer s.Close()
	c, ctx := dial(t, s.URL, "ana@ops1"), t.Context()
	r.signals.Set("queue_age", "a", 30)
	var list api.IncidentList
	eventually(t, "an incident", func() bool {
		var err error
		if list, err = c.Incidents(ctx, api.IncidentQuery{Open: true, Pool: "a", Rule: "queue_age", Since: time.Now().Add(-time.Hour), Limit: 5}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 1
	})
	id := list.Items[0].ID
	ack, err := c.Ack(ctx, id, api.AckRequest{For: "1h"})
	if err != nil || ack.By != "ana@ops1" {
		t.Fatalf("%+v, %v", ack, err)
	}
	var p *api.Problem
	if _, err = dial(t, s.URL, "ben").Ack(ctx, id, api.AckRequest{}); !errors.As(err, &p) || p.Acked == nil || p.Acked.By != "ana@ops1" {
		t.Errorf("second: %v", err)
	}
	eventually(t, "the record", func() bool {
		report, err := c.Incident(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return report.Recorded && len(report.Events) == 2
	})
	mute, err := c.Silence(ctx, api.SilenceRequest{Rule: "queue_age", Pool: "a", For: "1h", Reason: "why"})
	if err != nil || !mute.Created {
		t.Fatalf("%+v, %v", mute, err)
	}
	if mutes, err := c.Silences(ctx, "", 10); err != nil || len(mutes.Items) != 1 {
		t.Errorf("%+v, %v", mutes, err)
	}
	if mutes, err := c.Silences(ctx, mute.Silence.ID, 0); err != nil || len(mutes.Items) != 0 {
		t.Errorf("after the only one: %+v, %v", mutes, err)
	}
	if lifted, err := c.Unsilence(ctx, mute.Silence.ID); err != nil || lifted.ID != mute.Silence.ID {
		t.Errorf("%+v, %v", lifted, err)
	}
	status, err := c.Status(ctx)
	if err != nil || len(status.IncidentsOpen) != 1 || status.IncidentsOpen[0].AckedBy != "ana@ops1" {
		t.Errorf("%+v, %v", status.IncidentsOpen, err)
	}
}

// TestIncidentClientIDs: what cannot be an ID is never sent.
func TestIncidentClientIDs(t *testing.T) {
	c := dial(t, "http://127.0.0.1:1", "")
	for _, id := range []string{"", "..", "../mode", "a/b", "a b", "a?b", "a#b", "é", "\n", "%2e"} {
		_, errShow := c.Incident(t.Context(), id)
		_, errAck := c.Ack(t.Context(), id, api.AckRequest{})
		_, errLift := c.Unsilence(t.Context(), id)
		for _, err := range []error{errShow, errAck, errLift} {
			var silence *api.UnreachableError
			if err == nil || errors.As(err, &silence) {
				t.Errorf("%q was sent: %v", id, err)
			}
		}
	}
}
