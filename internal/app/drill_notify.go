package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"headgate/alerts"
	"headgate/alerts/slack"
	"headgate/runbooks/drill"
)

// drillStoreTimeout bounds the putting of a verdict into the outbox.
const drillStoreTimeout = 10 * time.Second

// notifyVerdict lets people know what came of a run, where drills are told. The owner of one
// that failed is called, if that is somebody whom Slack knows.
func (d *drillService) notifyVerdict(r drill.Run) {
	a := d.app
	if a.monitor == nil || !a.notifiers.enabled() {
		return
	}
	n := a.notifiers.routes.NewNotice(newID(), "drill-"+r.ID, r.Spec.Pool, verdictText(r, a.currentConfig().Admin.ExternalURL), r.Ended)
	if a.notifiers.routes.Drills != "" {
		n.Destination = alerts.ToDrills
	}
	if _, err := slack.ParseMention(r.Spec.Owner); err == nil && r.Verdict == drill.Failed && r.Spec.Owner != "" {
		n.Notification.Ping, n.Notification.Event.By = true, r.Spec.Owner
	}
	ctx, cancel := context.WithTimeout(context.Background(), drillStoreTimeout)
	defer cancel()
	if err := a.store.Outbox().Save(ctx, alerts.Changes{Add: []alerts.Delivery{n}}); err != nil {
		d.log.Error("nobody is told of a drill's verdict", "run", r.ID, "verdict", string(r.Verdict), "error", err)
		return
	}
	a.monitor.wakeDispatcher()
}

// verdictText say what came of a run, how close it was, and where to read more.
func verdictText(r drill.Run, links string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Drill %s: %s.", r.Name, strings.ToUpper(string(r.Verdict)))
	if r.Reason != "" {
		fmt.Fprintf(&s, " %s.", strings.TrimSuffix(r.Reason, "."))
	}
	if h, ok := r.Tightest(); ok && r.Verdict != drill.Passed {
		fmt.Fprintf(&s, " Closest to its limit: %s, at %s (margin %.2f).", h.Expectation, drill.FormatAmount(h.Value, h.Unit), h.Margin)
	}
	if owner := r.Spec.Owner; owner != "" && r.Verdict == drill.Failed {
		if _, err := slack.ParseMention(owner); err != nil {
			fmt.Fprintf(&s, " Owner: %s.", owner)
		}
	}
	if links != "" {
		return s.String() + " " + strings.TrimSuffix(links, "/") + "/drills/runs/" + r.ID
	}
	return s.String() + " To read it: headgate drill show " + r.ID
}
