package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headgate/engine"
	"headgate/internal/config"
	"headgate/internal/fakeslack"
	"headgate/internal/format"
	"headgate/internal/lifecycle"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
	"headgate/runbooks/control"
	"headgate/web/api"
)

const (
	// resolveLimit is how long incidents are waited for once everything has been
	// answered, in scenario time. sendLimit is added on the wall clock, because Slack
	// accepts one message per second at any speed.
	resolveLimit      = 15 * time.Minute
	sendLimit         = 15 * time.Second
	alertPollInterval = 200 * time.Millisecond // on the wall clock
	queryTimeout      = 2 * time.Second        // of the wall clock, for one look at the admin API

	// The tail is a quiet period after the load: enough calls for shares and
	// quantiles to be defined, and at most this share of the capacity.
	tailRate = 0.3 // calls per second of scenario time
	tailLoad = 0.4

	channelID   = "C0DEMO"
	pageMention = "<!here>"
)

// slackChannel is a stand-in for Slack with one channel, so that an incident has one
// message at any level. It serves that channel as a page too.
type slackChannel struct {
	slack    *fakeslack.Server
	token    string // of the bot
	appToken string // of the socket over which interactions come
	*lifecycle.Server
}

func newChannel(p Plan, failed chan<- error) (*slackChannel, error) {
	c := &slackChannel{token: "xoxb-demo-" + rand.Text(), appToken: "xapp-1-" + fakeslack.AppID + "-demo-" + rand.Text()}
	c.slack = fakeslack.New(fakeslack.Options{
		Token: c.token, AppToken: c.appToken, RateLimited: true, Seed: p.Seed,
	})
	name := "headgate-demo"
	if p.Speed != 1 {
		name = fmt.Sprintf("headgate-demo-at-%gx", p.Speed)
	}
	c.slack.SetChannel(fakeslack.Channel{ID: channelID, Name: name, Member: true})
	var err error
	c.Server, err = serve("stand-in for Slack", c.slack, failed)
	return c, err
}

// settings say where messages go, and who may press which button.
func (c *slackChannel) settings() config.Slack {
	may := func() []string { return []string{"U0ADA", "U0BEN"} } // U0EVE may look only
	return config.Slack{
		BotToken: config.NewSecret(c.token), AppToken: config.NewSecret(c.appToken), APIURL: c.URL() + "/api/",
		Channels: config.Channels{Page: channelID}, Mention: config.Mention{Page: pageMention},
		Allow: config.Allow{Rollback: may(), Restore: may(), Drill: may(), Ack: may(), Silence: may()},
	}
}

// close breaks off open requests and sockets.
func (c *slackChannel) close() error {
	c.slack.Close()
	return c.Server.Close()
}

// MessageCounts counts what was posted in the channel.
type MessageCounts struct {
	Messages int `json:"messages"` // one per incident
	Replies  int `json:"replies"`  // in their threads
	Edits    int `json:"edits"`    // of messages
	Pings    int `json:"pings"`    // messages and replies that mention people
}

// messageCounts counts, and returns the latest message on one line.
func (c *slackChannel) messageCounts() (t MessageCounts, last string) {
	for _, m := range c.slack.Messages(channelID) {
		t.Edits += len(m.Versions)
		if len(m.Pings) > 0 {
			t.Pings++
		}
		if m.Thread != "" {
			t.Replies++
		} else {
			t.Messages++
		}
		last = m.Text
	}
	return t, stripMarkup(last)
}

// stripMarkup removes Slack's markup from a message.
func stripMarkup(text string) string {
	pairs := []string{pageMention, "@here", "&lt;", "<", "&gt;", ">", "&amp;", "&"}
	for _, u := range fakeslack.DefaultUsers() {
		pairs = append(pairs, "<@"+u.ID+">", "@"+u.Name)
	}
	return format.Line(strings.NewReplacer(pairs...).Replace(text))
}

// actorName names an actor as the channel does.
func actorName(actor string) string {
	for _, u := range fakeslack.DefaultUsers() {
		if actor == "slack:"+u.ID {
			return u.Name + " in Slack"
		}
	}
	return actor
}

// alertMonitor follows alerts of the gated side, in the channel and at its admin API.
type alertMonitor struct {
	channel *slackChannel
	admin   *api.Client // nil until the gated side runs
}

// close ends what New started. The gated side must have been stopped.
func (m *alertMonitor) close() error {
	if m == nil {
		return nil
	}
	if m.admin != nil {
		m.admin.Close()
	}
	return m.channel.close()
}

// AlertState is the state of alerting on the gated side.
type AlertState struct {
	Mode, By     string // of the gate, and who set it
	Pages, Warns int    // open incidents
	Opened       int    // so far
	MessageCounts
	LastMessage string // the latest message, on one line
}

// poll reads the state. What cannot be read keeps its value from before.
func (m *alertMonitor) poll(before *AlertState) *AlertState {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	a := &AlertState{}
	if before != nil {
		*a = *before
	}
	a.MessageCounts, a.LastMessage = m.channel.messageCounts()
	if now, err := m.admin.Status(ctx); err == nil && len(now.Pools) > 0 {
		a.Mode, a.By = now.Pools[0].Mode, now.Pools[0].ModeBy
	}
	list, err := m.admin.Incidents(ctx, api.IncidentQuery{Limit: api.MaxPage})
	if err != nil {
		return a
	}
	a.Opened, a.Pages, a.Warns = len(list.Items), 0, 0
	for _, i := range list.Items {
		switch {
		case !i.Open():
		case i.Level == engine.LevelPage:
			a.Pages++
		default:
			a.Warns++
		}
	}
	return a
}

// incidents returns all incidents in detail, oldest first.
func (m *alertMonitor) incidents(ctx context.Context) ([]api.IncidentReport, error) {
	list, err := m.admin.Incidents(ctx, api.IncidentQuery{Limit: api.MaxPage})
	if err != nil {
		return nil, err
	}
	var all []api.IncidentReport
	for _, i := range slices.Backward(list.Items) {
		report, err := m.admin.Incident(ctx, i.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, report)
	}
	return all, nil
}

// undelivered reports whether a message about an incident has still to be sent.
func undelivered(i api.IncidentReport) bool {
	return slices.ContainsFunc(i.Deliveries, func(d api.Delivery) bool {
		return d.State != "sent" && d.State != "dropped" && d.State != "dead"
	})
}

// resolved is closed when all incidents have ended and their messages are sent, or
// ctx ends.
func (m *alertMonitor) resolved(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(alertPollInterval)
		defer tick.Stop()
		for {
			all, err := m.incidents(ctx)
			if err == nil && !slices.ContainsFunc(all, func(i api.IncidentReport) bool { return i.Open() || undelivered(i) }) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return done
}

// tailService is the service time of a call of the tail.
func (p Plan) tailService() time.Duration {
	return min(p.MeanService, time.Duration(tailLoad*float64(p.Workers)/tailRate*float64(time.Second)))
}

// tail sends short calls until ctx ends, so that rules on shares and quantiles have
// values. Their results are not counted.
func (y *instance) tail(ctx context.Context, p Plan) {
	arrivals, err := loadgen.Constant(tailRate, p.DrainLimit+2*resolveLimit)
	if err != nil { // the plan is too long for a tail
		return
	}
	service := p.tailService().String()
	_, _ = loadgen.Run(ctx, loadgen.Config{
		URL: y.addresses().Data, Speed: p.Speed,
		HeaderFor: func(int) http.Header { return http.Header{modelstub.HeaderService: {service}} },
	}, arrivals.Source())
}

// AlertSummary sums up alerting on the gated side. Times are seconds of scenario
// time since the burst began, or the load when there was none; below 0 they lie
// before it.
type AlertSummary struct {
	Opened    int      `json:"incidents_opened"`
	Resolved  int      `json:"incidents_resolved"`
	Rules     []string `json:"rules"`      // of the incidents, in the order in which they opened
	StillOpen []string `json:"still_open"` // rules of those that had not ended
	MessageCounts
	FirstWarn    *float64 `json:"warn_after_burst_began_s"`     // null: there was none
	FirstPage    *float64 `json:"page_after_burst_began_s"`     // null: there was none
	LastResolved *float64 `json:"resolved_after_burst_began_s"` // null: not all have ended, or there was none
	Undelivered  int      `json:"incidents_not_all_told"`       // with messages that had not been sent when the demo ended
	ModeChanges  []string `json:"mode_changes"`                 // by people: ACTION by ACTOR
}

// alertSummary sums up. An error says what could not be read.
func (d *Demo) alertSummary() (*AlertSummary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	all, err := d.monitor.incidents(ctx)
	if err != nil {
		return nil, fmt.Errorf("sum up the incidents: %w", err)
	}
	audit, err := d.monitor.admin.Audit(ctx, control.AuditQuery{Kind: control.KindMode, Limit: api.MaxPage})
	if err != nil {
		return nil, fmt.Errorf("sum up the changes of mode: %w", err)
	}
	a := summarizeIncidents(all, func(at time.Time) float64 {
		// By the wall clock: recorded times have no monotonic reading.
		since := time.Duration(float64(at.Sub(d.gated.tracker.start.Round(0))) * d.plan.Speed)
		return (since - d.plan.burstStart()).Seconds()
	})
	a.MessageCounts, _ = d.monitor.channel.messageCounts()
	for _, i := range slices.Backward(audit.Items) {
		if c := i.Change; c != nil && c.Via != control.ViaSettings {
			a.ModeChanges = append(a.ModeChanges, string(c.Action)+" by "+actorName(c.Actor))
		}
	}
	return a, nil
}

// burstStart is 0 without a burst.
func (p Plan) burstStart() time.Duration {
	if p.Burst == nil {
		return 0
	}
	return p.Burst.From
}

// summarizeIncidents sums up incidents; since converts a time of theirs.
func summarizeIncidents(all []api.IncidentReport, since func(time.Time) float64) *AlertSummary {
	a := &AlertSummary{Opened: len(all), Rules: []string{}, StillOpen: []string{}, ModeChanges: []string{}}
	earliest := func(t **float64, at float64) {
		if *t == nil || at < **t {
			*t = &at
		}
	}
	var lastEnd float64
	for _, i := range all {
		a.Rules = append(a.Rules, i.Rule)
		if undelivered(i) {
			a.Undelivered++
		}
		for _, e := range i.Events {
			if at := since(e.At); e.Level == engine.LevelPage {
				earliest(&a.FirstWarn, at) // a page includes the warning
				earliest(&a.FirstPage, at)
			} else if e.Level == engine.LevelWarn {
				earliest(&a.FirstWarn, at)
			}
		}
		if i.Open() {
			a.StillOpen = append(a.StillOpen, i.Rule)
			continue
		}
		if end := since(i.Ended); a.Resolved == 0 || end > lastEnd {
			lastEnd = end
		}
		a.Resolved++
	}
	if a.Resolved > 0 && len(a.StillOpen) == 0 {
		a.LastResolved = &lastEnd
	}
	return a
}

// notes are the summary in sentences.
func (a *AlertSummary) notes(burst bool) []string {
	var out []string
	addf := func(text string, args ...any) { out = append(out, fmt.Sprintf(text, args...)) }
	if len(a.ModeChanges) > 0 {
		addf("The mode of the gate was changed: %s. While it was in pass-through, its side refused nothing, so the two sides differ only by the rest of the time.",
			strings.Join(a.ModeChanges, ", "))
	}
	if a.Opened == 0 {
		addf("No rule fired: nothing was wrong for long enough, and no message was sent to Slack.")
		return out
	}
	addf("Slack followed %s (%s): %s, %s in threads, %s, %s.", format.Plural(a.Opened, "incident"), strings.Join(a.Rules, ", "),
		format.Plural(a.Messages, "message"), format.Plural(a.Replies, "reply"), format.Plural(a.Edits, "edit"), format.Plural(a.Pings, "ping"))
	var when []string
	for _, t := range []struct {
		what string
		at   *float64
	}{{"the first warning", a.FirstWarn}, {"the first page", a.FirstPage}, {"the end of the last incident", a.LastResolved}} {
		switch {
		case t.at == nil:
		case *t.at < 0:
			when = append(when, fmt.Sprintf("%s %.0f s before", t.what, -*t.at))
		default:
			when = append(when, fmt.Sprintf("%s after %.0f s", t.what, *t.at))
		}
	}
	if len(when) > 0 {
		from := "load"
		if burst {
			from = "burst"
		}
		addf("Measured from the start of the %s: %s.", from, strings.Join(when, ", "))
	}
	if len(a.StillOpen) > 0 {
		addf("Still open when the demo ended: %s.", strings.Join(a.StillOpen, ", "))
	}
	if a.Undelivered > 0 {
		addf("For %s not all messages had been sent.", format.Plural(a.Undelivered, "incident"))
	}
	return out
}
