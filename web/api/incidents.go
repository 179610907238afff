package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/engine"
	"headgate/runbooks/control"
)

const (
	// MaxTimeline is how many events and how many deliveries of one incident are shown at most, the newest ones.
	MaxTimeline = 1000
	// MaxMessage is how much of a message is shown, in characters.
	MaxMessage = 2000

	maxID = 64
)

// IncidentReader reads the record of incidents. Both methods obey their context.
type IncidentReader interface {
	// List returns incidents, newest first, and the key of the next page, empty if there is none; or control.ErrUnknownCursor.
	// The open ones are not read here: the engine knows them.
	List(ctx context.Context, q IncidentQuery) (items []engine.Incident, next string, err error)
	// Incident returns all that is recorded of one, but for Silenced and Recorded; or engine.ErrNoIncident.
	Incident(ctx context.Context, id string) (IncidentReport, error)
}

// IncidentQuery asks for incidents. Pool and Rule are empty for all.
type IncidentQuery struct {
	Open  bool      // only those that are not resolved
	Since time.Time // opened not before this; zero: no limit
	Pool  string
	Rule  string
	After string // the Next of the page before; empty: the first page
	Limit int    // at most so many, 1 to MaxPage
}

// Incident is an incident as it is now.
type Incident struct {
	engine.Incident
	Value     *float64 `json:"value"`     // nil: not known, which is not 0
	Threshold *float64 `json:"threshold"` // likewise
	Silenced  bool     `json:"silenced"`  // its notifications are muted now
}

// Event is an event of an incident.
type Event struct {
	engine.Event
	Value *float64 `json:"value"` // nil: not known
}

// EventsOf returns events as the API shows them.
func EventsOf(all []engine.Event) (shown []Event) {
	for _, e := range all {
		shown = append(shown, Event{e, finiteOrNull(e.Value)})
	}
	return shown
}

// IncidentList is the reply to GET /api/v1/incidents.
type IncidentList struct {
	Items []Incident `json:"items"`
	Next  string     `json:"next"` // for ?after=; empty if this is the last page
}

// IncidentReport is the reply to GET /api/v1/incidents/{id}. Events and deliveries are in the order of their numbers.
type IncidentReport struct {
	Incident
	Recorded   bool       `json:"recorded"`  // false: events and deliveries could not be read, or are not written yet
	Truncated  bool       `json:"truncated"` // there are more; the newest are here
	Events     []Event    `json:"events"`
	Deliveries []Delivery `json:"deliveries"`
}

// Delivery is the state of one message about an incident.
type Delivery struct {
	ID                string    `json:"id"`
	Seq               int       `json:"seq"`         // of the event that it is about
	Kind              string    `json:"kind"`        // post, edit or reply
	Destination       string    `json:"destination"` // warn, page, drills or fallback
	State             string    `json:"state"`       // queued, sending, retry, uncertain, sent, dead or dropped
	Reason            string    `json:"reason"`      // why the latest attempt failed; holds no secret
	Attempts          int       `json:"attempts"`
	Created           time.Time `json:"created_at"`
	Tried             time.Time `json:"tried_at,omitzero"`  // start of the latest attempt
	NextAttempt       time.Time `json:"next_at,omitzero"`   // not before then; only while it is pending
	Channel           string    `json:"channel"`            // where it was posted, once sent
	AmbiguousAttempts int       `json:"ambiguous_attempts"` // times sent again without knowing whether it had arrived
	Text              string    `json:"text"`               // as plain text of some lines; at most MaxMessage
}

// AckRequest is the body of POST /api/v1/incidents/{id}/ack.
type AckRequest struct {
	For string `json:"for,omitempty"` // see ParseDuration; empty: the default duration
}

// AckReply shows the acknowledgement.
type AckReply struct {
	Acknowledgement
	Incident Incident `json:"incident"`
}

// Acknowledgement says who has acknowledged an incident.
type Acknowledgement struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// SilenceList is the reply to GET /api/v1/silences: those that have not ended, newest first.
type SilenceList struct {
	Items []engine.Silence `json:"items"`
	Next  string           `json:"next"` // for ?after=; empty if this is the last page
}

// SilenceRequest is the body of POST /api/v1/silences.
type SilenceRequest struct {
	Rule   string `json:"rule"`
	Pool   string `json:"pool,omitempty"` // empty: all pools
	For    string `json:"for"`            // see ParseDuration
	Reason string `json:"reason"`
}

// SilenceReply shows the silence that is in force.
type SilenceReply struct {
	Created bool           `json:"created"` // false: it existed before, with the same effect
	Silence engine.Silence `json:"silence"`
}

// CheckID refuses what cannot be the ID of an incident, a silence or a run, and as a part of a URL might mean something
// else.
func CheckID(id string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	if id == "" || len(id) > maxID || strings.Trim(id, letters) != "" {
		return fmt.Errorf("%s cannot be an ID: one has 1 to %d letters, digits and dashes", quoteName(id), maxID)
	}
	return nil
}

const noRuleEngineDetail = "No rules are evaluated here, so there are no incidents and no silences."

// routeIncidents serves what is about incidents and silences.
func (a *Admin) routeIncidents() {
	a.route(a.checkEngine, map[string]methodHandlers{
		"incidents": {http.MethodGet: page(a, parseIncidentQuery, a.Incidents, "open", "since", "pool", "rule", "after", "limit")},
		"incidents/{id}": {http.MethodGet: a.read(func(r *http.Request) (any, error) {
			return a.Incident(r.Context(), r.PathValue("id"))
		})},
		"incidents/{id}/ack": {http.MethodPost: write(a, a.ack)},
		"silences": {
			http.MethodPost: write(a, a.createSilence),
			http.MethodGet: page(a, parseAuditQuery, func(_ context.Context, q control.AuditQuery) (SilenceList, error) {
				return a.Silences(q.After, q.Limit)
			}, "after", "limit"),
		},
		"silences/{id}": {http.MethodDelete: a.read(a.endSilence)},
	})
}

// checkEngine refuses requests about incidents if no rules are evaluated.
func (a *Admin) checkEngine() error {
	if a.config.Control.Engine() == nil {
		return ControlProblem(control.ErrNoRuleEngine)
	}
	return nil
}

// Incidents lists incidents. The open ones come from the engine, which knows them also when the record is broken. Its
// error is a *Problem.
func (a *Admin) Incidents(ctx context.Context, q IncidentQuery) (IncidentList, error) {
	if err := a.checkEngine(); err != nil {
		return IncidentList{}, err
	}
	list := IncidentList{Items: []Incident{}}
	if q.Open {
		if q.After != "" && CheckID(q.After) != nil {
			return list, badCursor()
		}
		list.Items, list.Next = a.openIncidents(q)
		return list, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	items, next, err := a.config.Incidents.List(ctx, q)
	if err != nil {
		return list, a.incidentProblem(err)
	}
	list.Items, list.Next = a.withSilences(mergeLive(items, a.config.Control.Engine().Incidents())), next
	return list, nil
}

// openIncidents returns a page of the open incidents, newest first.
func (a *Admin) openIncidents(q IncidentQuery) (items []Incident, next string) {
	if a.config.Control.Engine() == nil {
		return []Incident{}, ""
	}
	all := slices.DeleteFunc(a.config.Control.Engine().Incidents(), func(i engine.Incident) bool {
		return !i.Open() || i.Opened.Before(q.Since) || q.Pool != "" && q.Pool != i.Pool || q.Rule != "" && q.Rule != i.Rule
	})
	page, next := pageByID(all, func(i engine.Incident) string { return i.ID }, q.After, q.Limit)
	return a.withSilences(page), next
}

// withSilences says of incidents whether they are silenced now.
func (a *Admin) withSilences(all []engine.Incident) []Incident {
	silences, now := a.config.Control.Engine().Silences(), time.Now()
	shown := make([]Incident, 0, len(all))
	for _, i := range all {
		shown = append(shown, Incident{i, finiteOrNull(i.Value), finiteOrNull(i.Threshold), slices.ContainsFunc(silences, func(s engine.Silence) bool {
			return !s.EndHandled && s.Covers(i.Key) && !now.Before(s.From) && now.Before(s.Until)
		})})
	}
	return shown
}

// incidentProblem is where the errors of reading the record become statuses.
func (a *Admin) incidentProblem(err error) *Problem {
	switch {
	case errors.Is(err, control.ErrUnknownCursor):
		return badCursor()
	case errors.Is(err, engine.ErrNoIncident):
		return notFound(TypeUnknownIncident, "There is no such incident.")
	default:
		a.config.Log.Error("incidents not read", "error", err)
		return &Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record cannot be read just now; the log says why. Open incidents are still shown, with open=true."}
	}
}

func badCursor() *Problem {
	return badRequest(http.StatusBadRequest, "after must be the next of an earlier page.")
}

func parseIncidentQuery(values url.Values, now time.Time) (IncidentQuery, error) {
	c, err := parseAuditQuery(values, now)
	if err != nil {
		return IncidentQuery{}, err
	}
	q := IncidentQuery{Since: c.Since, Pool: c.Pool, Rule: values.Get("rule"), After: c.After, Limit: c.Limit}
	if len(q.Rule) > maxParam {
		return q, fmt.Errorf("rule must have at most %d characters", maxParam)
	}
	q.Open, err = parseFlag(values, "open")
	return q, err
}

// pageByID returns the page after an ID, newest first: IDs sort by time. The key need not exist any more.
func pageByID[T any](all []T, id func(T) string, after string, limit int) (items []T, next string) {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(id(b), id(a)) })
	if after != "" {
		all = slices.DeleteFunc(all, func(v T) bool { return id(v) >= after })
	}
	if len(all) <= limit {
		return all, ""
	}
	return all[:limit], id(all[limit-1])
}

// mergeLive brings recorded incidents up to date: the record may be behind the engine.
func mergeLive(items, now []engine.Incident) []engine.Incident {
	live := make(map[string]engine.Incident, len(now))
	for _, i := range now {
		live[i.ID] = i
	}
	for n := range items {
		if i, ok := live[items[n].ID]; ok {
			items[n] = i
		}
	}
	return items
}

// Incident returns all that is known of one incident. Its error is a *Problem.
func (a *Admin) Incident(ctx context.Context, id string) (IncidentReport, error) {
	if err := a.checkEngine(); err != nil {
		return IncidentReport{}, err
	}
	if err := CheckID(id); err != nil {
		return IncidentReport{}, notFound(TypeUnknownIncident, "The incident "+err.Error()+".")
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	report, err := a.config.Incidents.Incident(ctx, id)
	all := a.config.Control.Engine().Incidents()
	n := slices.IndexFunc(all, func(i engine.Incident) bool { return i.ID == id })
	switch {
	case err != nil && n < 0:
		return report, a.incidentProblem(err)
	case err != nil && !errors.Is(err, engine.ErrNoIncident):
		a.config.Log.Error("incident not read, showing what is in memory", "incident", id, "error", err)
	}
	report.Recorded = err == nil
	if n >= 0 {
		report.Recorded = report.Recorded && report.Seq >= all[n].Seq // else the engine is ahead of the record
		report.Incident.Incident = all[n]
	}
	report.Incident = a.withSilences([]engine.Incident{report.Incident.Incident})[0]
	report.Events = keepNewest(report.Events, &report.Truncated)
	report.Deliveries = keepNewest(report.Deliveries, &report.Truncated)
	return report, nil
}

// keepNewest cuts a list that is too long, and sets truncated. It never returns nil.
func keepNewest[T any](all []T, truncated *bool) []T {
	if over := len(all) - MaxTimeline; over > 0 {
		*truncated = true
		return all[over:]
	}
	return append([]T{}, all...)
}

func (a *Admin) ack(r *http.Request, by control.Actor, m AckRequest) (any, error) {
	id := r.PathValue("id")
	if err := CheckID(id); err != nil {
		return nil, notFound(TypeUnknownIncident, "The incident "+err.Error()+".")
	}
	done, err := DoAction(r.Context(), a.config.Control, by, control.ActionAck, ActionRequest{Incident: id, For: m.For})
	if err != nil {
		return nil, err
	}
	return AckReply{Acknowledgement{done.Ack.By, done.Ack.Until}, a.withSilences([]engine.Incident{done.Ack.Incident})[0]}, nil
}

func ackConflict(a engine.AckResult) *Problem {
	return &Problem{Type: TypeAlreadyAcked, Status: http.StatusConflict, Acked: &Acknowledgement{a.By, a.Until},
		Detail: fmt.Sprintf("Nothing was changed: acknowledged by %s until %s.", a.By, a.Until.UTC().Format(time.RFC3339))}
}

// Silences returns a page of the silences that have not ended, newest first. Its error is a *Problem.
func (a *Admin) Silences(after string, limit int) (SilenceList, error) {
	if err := a.checkEngine(); err != nil {
		return SilenceList{}, err
	}
	if after != "" && CheckID(after) != nil {
		return SilenceList{}, badCursor()
	}
	page, next := pageByID(a.config.Control.Engine().Silences(), func(s engine.Silence) string { return s.ID }, after, limit)
	return SilenceList{Items: append([]engine.Silence{}, page...), Next: next}, nil
}

func (a *Admin) createSilence(r *http.Request, by control.Actor, m SilenceRequest) (any, error) {
	done, err := CreateSilence(r.Context(), a.config.Control, by, m)
	return SilenceReply{Created: done.Silence.Applied, Silence: done.Silence.Silence}, err
}

// CreateSilence silences a rule: the action of that name, which here has no defaults. See ControlProblem for its errors.
func CreateSilence(ctx context.Context, s *control.Service, by control.Actor, m SilenceRequest) (control.Result, error) {
	missing := ""
	switch {
	case m.Rule == "":
		missing = "rule must name a rule, such as the rule of an incident."
	case m.Reason == "":
		missing = "reason must say why: others will wonder why there are no notifications."
	case m.For == "":
		missing = "for must be a span such as 1h, 90m or 2d."
	}
	if missing != "" {
		return control.Result{}, badRequest(http.StatusBadRequest, missing)
	}
	if err := CheckLine("pool", m.Pool, maxParam); err != nil {
		return control.Result{}, invalid(err)
	}
	return DoAction(ctx, s, by, control.ActionSilence, ActionRequest{Rule: m.Rule, Pool: m.Pool, For: m.For, Reason: m.Reason})
}

// endSilence ends a silence early.
func (a *Admin) endSilence(r *http.Request) (any, error) {
	by, err := actorOf(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if err := CheckID(id); err != nil {
		return nil, notFound(TypeUnknownSilence, "The silence "+err.Error()+".")
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTimeout)
	defer cancel()
	done, err := a.config.Control.Unsilence(ctx, by, id)
	return done.Silence.Silence, err
}

// Bounds of a page of the audit, and the time it may take.
const (
	MaxPage       = 1000
	defaultPage   = 100
	maxParam      = 200
	recordTimeout = 3 * time.Second
	maxDuration   = 100 * 365 * 24 * time.Hour
)

// AuditReader reads the record.
type AuditReader interface {
	// Audit returns what is recorded, newest first, or control.ErrUnknownCursor.
	Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error)
}

// AuditKinds returns the kinds of audit records, in a fixed order.
func AuditKinds() []string {
	kinds := []string{string(control.KindMode)}
	for _, k := range control.AuditKinds() {
		kinds = append(kinds, string(k))
	}
	return kinds
}

// Audit returns a page of the audit. Its error is a *Problem.
func (a *Admin) Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error) {
	if err := checkKind(q.Kind); err != nil {
		return control.AuditPage{}, invalid(err)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	page, err := a.config.Audit.Audit(ctx, q)
	switch {
	case errors.Is(err, control.ErrUnknownCursor):
		return page, badCursor()
	case err != nil:
		a.config.Log.Error("audit not read", "error", err)
		return page, &Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record cannot be read just now; the log says why. Modes can still be changed."}
	}
	return page, nil
}

func checkKind(k control.AuditKind) error {
	if k != "" && !slices.Contains(AuditKinds(), string(k)) {
		return fmt.Errorf("kind must be one of %s", strings.Join(AuditKinds(), ", "))
	}
	return nil
}

// parseAuditQuery reads the parameters of a page.
func parseAuditQuery(values url.Values, now time.Time) (control.AuditQuery, error) {
	q := control.AuditQuery{Pool: values.Get("pool"), After: values.Get("after"), Limit: defaultPage}
	if len(q.Pool) > maxParam || len(q.After) > maxParam {
		return q, fmt.Errorf("pool and after must have at most %d characters", maxParam)
	}
	q.Kind = control.AuditKind(values.Get("kind"))
	if err := checkKind(q.Kind); err != nil {
		return q, err
	}
	if s := values.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > MaxPage {
			return q, fmt.Errorf("limit must be a number from 1 to %d", MaxPage)
		}
		q.Limit = n
	}
	return q, parseTimes(values, now, map[string]*time.Time{"since": &q.Since})
}
