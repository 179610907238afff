package api

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/internal/format"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

// DrillPorts connects the API to drills. All three are set.
type DrillPorts struct {
	Catalog    DrillCatalog
	Controller DrillController
	Runs       DrillRunReader
}

// DrillCatalog shows which drills there are, and what runs.
type DrillCatalog interface {
	// Drills returns the drills of the settings and the built-in ones, by name. What
	// the record holds of them is left out when it cannot be read.
	Drills(ctx context.Context, now time.Time) (drill.States, error)
	// Live returns a copy of a run as it is in memory, ahead of the record; false if
	// no such run is going on.
	Live(id string) (drill.Run, bool)
}

// DrillController controls drills. Implementations record each call in the audit.
type DrillController interface {
	// Start claims a run and begins it, or with DryRun only says what it would do. It
	// returns before the run has ended. drill.ErrNoDrill, drill.ErrFrozen, a
	// *drill.BusyError and a *drill.RefusedError say why not.
	Start(ctx context.Context, o drill.StartRequest) (drill.StartResult, error)
	// Abort stops a run and returns it as soon as its faults are cleared.
	// drill.ErrNoRun; a *drill.RefusedError if it has ended already.
	Abort(ctx context.Context, id, by, reason string) (drill.Run, error)
	// Freeze stops what runs and refuses new runs, or with On false lets drills run
	// again. It returns how things stand then.
	Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error)
}

// DrillRunReader reads the record of runs. All methods obey their context.
type DrillRunReader interface {
	// Runs returns a page, newest first, each run without its series, messages and
	// reverted steps, and the key of the next page. control.ErrUnknownCursor: After is no key.
	Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error)
	// Run returns one with all of it, or drill.ErrNoRun.
	Run(ctx context.Context, id string) (drill.Run, error)
	// History sums up what has ended, for a calendar and for trends.
	History(ctx context.Context, q drill.HistoryQuery) (drill.History, error)
}

// DrillList is the reply to GET /api/v1/drills.
type DrillList struct {
	Freeze DrillFreeze    `json:"freeze"`
	Items  []DrillSummary `json:"items"`
	Next   string         `json:"next"` // always empty: there are never so many
}

// DrillFreeze says whether drills may run.
type DrillFreeze struct {
	Frozen bool   `json:"frozen"`
	By     string `json:"by"`
	Reason string `json:"reason"`
	Since  Time   `json:"since"` // of this state; null: it was always so
}

// DrillSummary is one drill, as it stands.
type DrillSummary struct {
	ID           string         `json:"id"` // stays when it is renamed
	Name         string         `json:"name"`
	Note         string         `json:"note"`
	Owner        string         `json:"owner"`
	BuiltIn      bool           `json:"built_in"`
	Target       string         `json:"target"` // twin or live
	Pool         string         `json:"pool"`   // empty: the first
	Schedule     string         `json:"schedule"`
	Zone         string         `json:"zone"`
	NextRuns     []DrillNextRun `json:"next_runs"` // five at most
	Running      *string        `json:"running"`   // ID of the run in progress; null: none
	Last         *DrillLast     `json:"last"`      // the latest run that ended; null: none
	LastPassedAt Time           `json:"last_passed_at"`
	Overdue      bool           `json:"overdue"`  // the last pass is too long ago
	Problems     []string       `json:"problems"` // why it cannot run as it stands
}

// DrillNextRun is a due time.
type DrillNextRun struct {
	At    Time   `json:"at"`
	Local string `json:"local"` // the same in the zone of the schedule
	Note  string `json:"note"`  // of clocks that go forward or back
}

// DrillLast is how a drill ended last.
type DrillLast struct {
	Run     string `json:"run"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	At      Time   `json:"at"`
}

// DrillRunList is the reply to GET /api/v1/runs.
type DrillRunList struct {
	Items []drill.Run `json:"items"` // without spec, rollbacks, messages and series
	Next  string      `json:"next"`  // for ?after=; empty if this is the last page
}

// defaultHistory is how far back a history goes unless it is asked to.
const defaultHistory = 365 * 24 * time.Hour

// DrillHistory is the reply to GET /api/v1/drills/history.
type DrillHistory struct {
	Days   []DrillDay    `json:"days"`   // with runs, in order
	Latest []DrillLatest `json:"latest"` // how each drill stands that was ever seen
}

// DrillDay is the sum of the runs of a drill that began on one day.
type DrillDay struct {
	Day        string         `json:"day"` // of UTC, such as 2026-01-31
	Drill      string         `json:"drill"`
	Verdicts   map[string]int `json:"verdicts"`     // runs by verdict; those without runs are left out
	Evaluated  int            `json:"judged"`       // runs with a margin
	MarginMean *float64       `json:"margin_mean"`  // of the tightest margin of each; null unless judged
	MarginMin  *float64       `json:"margin_least"` // of all
}

// DrillLatest is how a drill stands.
type DrillLatest struct {
	Drill     string  `json:"drill"`
	Name      string  `json:"name"` // when it ran last
	Run       string  `json:"run"`  // the latest that ended
	Verdict   string  `json:"verdict"`
	At        Time    `json:"at"`
	PassedRun *string `json:"passed_run"` // the latest that passed; null: none
	PassedAt  Time    `json:"passed_at"`
}

const (
	// drillTimeout bounds actions on drills: faults are cleared within a second, and
	// a claim waits for the record.
	drillTimeout = 4 * time.Second
	// MaxSpeed bounds how many scenario seconds pass in one of the wall clock.
	MaxSpeed = drill.MaxSpeed
)

// DrillRunRequest is the body of POST /api/v1/drills/{name}/run.
type DrillRunRequest struct {
	Speed  float64 `json:"speed,omitempty"` // 0: as the drill has it
	DryRun bool    `json:"dry_run,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// DrillRunReply says what was begun, or would be.
type DrillRunReply struct {
	DryRun bool          `json:"dry_run"`
	Run    *string       `json:"run"` // ID; null in a dry run
	Plan   DrillPlanView `json:"plan"`
}

// DrillPlanView says what a run does, before it does it.
type DrillPlanView struct {
	Drill              string   `json:"drill"`
	Name               string   `json:"name"`
	Target             string   `json:"target"`
	Pool               string   `json:"pool"`
	Speed              float64  `json:"speed"`
	ScenarioS          float64  `json:"scenario_s"` // at most, scenario time
	WallTimeS          float64  `json:"takes_s"`    // at most, of the wall clock
	NotificationTarget string   `json:"messages_to"`
	Steps              []string `json:"steps"`
	Hypotheses         []string `json:"hypotheses"`
	Blocked            *string  `json:"blocked"` // why it would not begin now; null: it would
}

// ReasonRequest is the body of an abort, a freeze and an unfreeze.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty"`
}

// routeDrills serves what is about drills.
func (a *Admin) routeDrills() {
	freeze := func(on bool) methodHandlers {
		return methodHandlers{http.MethodPost: write(a, func(r *http.Request, by control.Actor, m ReasonRequest) (any, error) {
			return a.FreezeDrills(r.Context(), by, on, m.Reason)
		})}
	}
	a.route(a.checkDrills, map[string]methodHandlers{
		"drills":         {http.MethodGet: a.read(func(r *http.Request) (any, error) { return a.Drills(r.Context()) })},
		"drills/history": {http.MethodGet: page(a, parseHistoryQuery, a.DrillHistory, "drill", "since", "until")},
		"drills/{name}/run": {http.MethodPost: write(a, func(r *http.Request, by control.Actor, m DrillRunRequest) (any, error) {
			return a.RunDrill(r.Context(), by, r.PathValue("name"), m)
		})},
		"drills/freeze":   freeze(true),
		"drills/unfreeze": freeze(false),
		"runs":            {http.MethodGet: page(a, RunQuery, a.Runs, runParamNames()...)},
		"runs.json":       {http.MethodGet: a.handle(a.exportJSON, runParamNames()...)},
		"runs.csv":        {http.MethodGet: a.handle(a.exportCSV, runParamNames()...)},
		"runs/{id}": {http.MethodGet: a.read(func(r *http.Request) (any, error) {
			return a.Run(r.Context(), r.PathValue("id"), r.URL.Query().Get("series"))
		}, "series")},
		"runs/{id}/abort": {http.MethodPost: write(a, func(r *http.Request, by control.Actor, m ReasonRequest) (any, error) {
			return a.AbortRun(r.Context(), by, r.PathValue("id"), m.Reason)
		})},
	})
}

// checkDrills refuses requests about drills while there are none.
func (a *Admin) checkDrills() error {
	if a.config.Drills == nil {
		return notFound(TypeNoDrills, "This headgate runs no drills.")
	}
	return nil
}

// withDrills calls do within a time limit if there are drills. Its error is a *Problem.
func withDrills[T any](ctx context.Context, a *Admin, limit time.Duration, what string, do func(context.Context) (T, error)) (T, error) {
	var none T
	if err := a.checkDrills(); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := do(ctx)
	if err != nil {
		return none, a.drillProblem(what, err)
	}
	return v, nil
}

// Drills lists the drills. Its error is a *Problem, as of the other methods about drills.
func (a *Admin) Drills(ctx context.Context) (DrillList, error) {
	return withDrills(ctx, a, recordTimeout, "list drills", func(ctx context.Context) (DrillList, error) {
		states, err := a.config.Drills.Catalog.Drills(ctx, time.Now())
		list := DrillList{Freeze: freezeOf(states.Freeze), Items: []DrillSummary{}}
		for _, s := range states.Items {
			list.Items = append(list.Items, drillSummaryOf(s))
		}
		return list, err
	})
}

// Runs returns a page of runs, newest first.
func (a *Admin) Runs(ctx context.Context, q drill.Query) (DrillRunList, error) {
	return withDrills(ctx, a, recordTimeout, "list runs", func(ctx context.Context) (DrillRunList, error) {
		runs, next, err := a.config.Drills.Runs.Runs(ctx, q)
		return DrillRunList{Items: RunSummaries(runs), Next: next}, err
	})
}

// RunSummaries returns runs as lists show them.
func RunSummaries(runs []drill.Run) []drill.Run {
	shown := make([]drill.Run, 0, len(runs))
	for _, r := range runs {
		shown = append(shown, r.Summary())
	}
	return shown
}

// Run returns one run, as it is in memory while it goes on, with a part of its series.
func (a *Admin) Run(ctx context.Context, id, series string) (drill.Run, error) {
	return withDrills(ctx, a, recordTimeout, "read a run", func(ctx context.Context) (drill.Run, error) {
		if series != FullSeries && series != LastPoint && series != NoSeries {
			return drill.Run{}, badRequest(http.StatusBadRequest, "series must be last, none, or be left out.")
		}
		if err := checkRunID(id); err != nil {
			return drill.Run{}, err
		}
		found, live := a.config.Drills.Catalog.Live(id)
		if !live {
			var err error
			if found, err = a.config.Drills.Runs.Run(ctx, id); err != nil {
				return drill.Run{}, err
			}
		}
		switch series {
		case NoSeries:
			found.Series = nil
		case LastPoint:
			found.Series = found.Series[max(0, len(found.Series)-1):]
		}
		return found.Report(live), nil
	})
}

func checkRunID(id string) error {
	if err := CheckID(id); err != nil {
		return notFound(TypeUnknownRun, "The run "+err.Error()+".")
	}
	return nil
}

// runParamNames are the filters of runs.
func runParamNames() []string {
	return []string{"drill", "verdict", "trigger", "since", "until", "running", "after", "limit"}
}

// RunQuery reads the filters of runs from the values of a URL. Errors are a
// sentence without its full stop.
func RunQuery(values url.Values, now time.Time) (q drill.Query, err error) {
	c, err := parseAuditQuery(values, now)
	if err != nil {
		return q, err
	}
	q = drill.Query{Drill: values.Get("drill"), Since: c.Since, After: c.After, Limit: c.Limit}
	if len(q.Drill) > maxParam {
		return q, fmt.Errorf("drill must have at most %d characters", maxParam)
	}
	if err := parseTimes(values, now, map[string]*time.Time{"until": &q.Until}); err != nil {
		return q, err
	}
	if q.Verdicts, err = parseEnumList("verdict", values.Get("verdict"), drill.Verdicts()); err != nil {
		return q, err
	}
	if q.Triggers, err = parseEnumList("trigger", values.Get("trigger"), []drill.Trigger{drill.BySchedule, drill.ByCatchUp, drill.ByHand}); err != nil {
		return q, err
	}
	q.Running, err = parseFlag(values, "running")
	return q, err
}

// parseEnumList reads words with commas between them.
func parseEnumList[T ~string](what, text string, known []T) (out []T, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		if !slices.Contains(known, T(word)) {
			return nil, fmt.Errorf("%s must be of %s, with commas between them", what, join(known, ", "))
		}
		if !slices.Contains(out, T(word)) {
			out = append(out, T(word))
		}
	}
	return out, nil
}

func join[T ~string](words []T, between string) string {
	texts := make([]string, len(words))
	for n, w := range words {
		texts[n] = string(w)
	}
	return strings.Join(texts, between)
}

// DrillHistory sums up runs by drill and day.
func (a *Admin) DrillHistory(ctx context.Context, q drill.HistoryQuery) (DrillHistory, error) {
	return withDrills(ctx, a, recordTimeout, "read the history of drills", func(ctx context.Context) (DrillHistory, error) {
		h, err := a.config.Drills.Runs.History(ctx, q)
		return drillHistoryOf(h), err
	})
}

func parseHistoryQuery(values url.Values, now time.Time) (drill.HistoryQuery, error) {
	q := drill.HistoryQuery{Drill: values.Get("drill"), Since: now.Add(-defaultHistory), Until: now}
	if len(q.Drill) > maxParam {
		return q, fmt.Errorf("drill must have at most %d characters", maxParam)
	}
	if err := parseTimes(values, now, map[string]*time.Time{"since": &q.Since, "until": &q.Until}); err != nil {
		return q, err
	}
	switch {
	case q.Until.Before(q.Since):
		return q, errors.New("until must not be before since")
	case q.Until.Sub(q.Since) > drill.MaxDays*24*time.Hour:
		return q, fmt.Errorf("since and until must be at most %d days apart", drill.MaxDays)
	}
	return q, nil
}

func drillHistoryOf(h drill.History) DrillHistory {
	shown := DrillHistory{Days: []DrillDay{}, Latest: []DrillLatest{}}
	for _, d := range h.Days {
		day := DrillDay{Day: d.Day.UTC().Format(time.DateOnly), Drill: d.Drill, Verdicts: map[string]int{}, Evaluated: d.WithMargin}
		for v, n := range d.Verdicts {
			day.Verdicts[string(v)] = n
		}
		if d.WithMargin > 0 {
			day.MarginMean, day.MarginMin = finiteOrNull(d.MarginSum/float64(d.WithMargin)), finiteOrNull(d.Tightest)
		}
		shown.Days = append(shown.Days, day)
	}
	for _, l := range h.Latest {
		s := DrillLatest{Drill: l.Drill, Name: l.Name, Run: l.Run, Verdict: string(l.Verdict), At: Time{l.At}, PassedAt: Time{l.PassedAt}}
		if l.PassedRun != "" {
			s.PassedRun = &l.PassedRun
		}
		shown.Latest = append(shown.Latest, s)
	}
	return shown
}

// RunDrill starts a run, or says what it would do.
func (a *Admin) RunDrill(ctx context.Context, by control.Actor, name string, req DrillRunRequest) (DrillRunReply, error) {
	return withDrills(withVia(ctx, by), a, drillTimeout, "run a drill", func(ctx context.Context) (DrillRunReply, error) {
		if err := checkReason(req.Reason); err != nil {
			return DrillRunReply{}, err
		}
		if err := CheckDrill(name); err != nil {
			return DrillRunReply{}, notFound(TypeUnknownDrill, format.Sentence(err.Error())+".")
		}
		if req.Speed != 0 && !(req.Speed >= 1 && req.Speed <= MaxSpeed) { // NaN too
			return DrillRunReply{}, badRequest(http.StatusBadRequest, fmt.Sprintf("speed must be from 1 to %d, or be left out.", MaxSpeed))
		}
		started, err := a.config.Drills.Controller.Start(ctx, drill.StartRequest{Name: name, Speed: req.Speed, DryRun: req.DryRun, Reason: req.Reason, Actor: by.Name})
		reply := DrillRunReply{DryRun: req.DryRun, Plan: planView(started.Plan)}
		if !req.DryRun {
			reply.Run = &started.Run
		}
		return reply, err
	})
}

// AbortRun stops a run, and returns it once its faults are cleared.
func (a *Admin) AbortRun(ctx context.Context, by control.Actor, id, reason string) (drill.Run, error) {
	return withDrills(withVia(ctx, by), a, drillTimeout, "abort a run", func(ctx context.Context) (drill.Run, error) {
		if err := errors.Join(checkReason(reason), checkRunID(id)); err != nil {
			return drill.Run{}, err
		}
		run, err := a.config.Drills.Controller.Abort(ctx, id, by.Name, reason)
		return run.Summary(), err
	})
}

// FreezeDrills stops what runs and refuses new runs, or lets drills run again.
func (a *Admin) FreezeDrills(ctx context.Context, by control.Actor, on bool, reason string) (DrillFreeze, error) {
	return withDrills(withVia(ctx, by), a, drillTimeout, "freeze drills", func(ctx context.Context) (DrillFreeze, error) {
		if err := checkReason(reason); err != nil {
			return DrillFreeze{}, err
		}
		if on && reason == "" {
			return DrillFreeze{}, badRequest(http.StatusBadRequest, "reason must say why: others will wonder why no drill runs.")
		}
		f, err := a.config.Drills.Controller.Freeze(ctx, drill.Freeze{On: on, Actor: by.Name, Reason: reason, Since: time.Now().UTC()})
		return freezeOf(f), err
	})
}

func checkReason(reason string) error {
	if err := CheckLine("reason", reason, MaxReason); err != nil {
		return invalid(err)
	}
	return nil
}

// drillProblem is where the errors about drills become statuses.
func (a *Admin) drillProblem(what string, err error) *Problem {
	var known *Problem
	var busy *drill.BusyError
	var refusal *drill.RefusedError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, drill.ErrNoDrill):
		p := notFound(TypeUnknownDrill, "There is no such drill.")
		if p.Drills = a.drillNames(); len(p.Drills) > 0 {
			p.Detail = truncateDetail("There is no such drill. There are: " + strings.Join(p.Drills, ", ") + ".")
		}
		return p
	case errors.Is(err, drill.ErrNoRun):
		return notFound(TypeUnknownRun, "There is no such run; runs that ended long ago are not kept.")
	case errors.Is(err, drill.ErrFrozen):
		return &Problem{Type: TypeDrillsFrozen, Status: http.StatusConflict, Detail: "Drills are frozen, none is begun until headgate drill unfreeze."}
	case errors.As(err, &busy):
		return &Problem{Type: TypeDrillBusy, Status: http.StatusConflict, Run: busy.Run, Detail: truncateDetail(format.Sentence(busy.Error())) + "; only one runs at a time."}
	case errors.As(err, &refusal):
		return &Problem{Type: TypeDrillRefused, Status: http.StatusConflict, Detail: truncateDetail(format.Sentence(refusal.Reason)) + "."}
	case errors.Is(err, control.ErrUnknownCursor):
		return badCursor()
	default:
		a.config.Log.Error("a request about drills failed", "request", what, "error", err)
		return &Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record of drills cannot be used just now; the log says why."}
	}
}

// drillNames are shown in answers about an unknown drill.
func (a *Admin) drillNames() (names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	states, err := a.config.Drills.Catalog.Drills(ctx, time.Now())
	if err != nil {
		return nil
	}
	for _, s := range states.Items {
		names = append(names, s.Spec.ID)
	}
	return names
}

type viaKey struct{}

// ViaFromContext returns the interface through which a request about drills came.
func ViaFromContext(ctx context.Context) control.Via {
	via, ok := ctx.Value(viaKey{}).(control.Via)
	if !ok {
		return control.ViaAPI
	}
	return via
}

// withVia adds the interface through which a request about drills came.
func withVia(ctx context.Context, by control.Actor) context.Context {
	return context.WithValue(ctx, viaKey{}, by.Via)
}

func planView(p drill.Plan) DrillPlanView {
	v := DrillPlanView{
		Drill: p.Drill, Name: p.Name, Target: string(p.Target), Pool: p.Pool, Speed: drill.Finite(p.Speed), ScenarioS: control.Seconds(p.Scenario),
		WallTimeS: control.Seconds(p.WallTime), NotificationTarget: p.NotificationTarget, Steps: append([]string{}, p.Steps...), Hypotheses: append([]string{}, p.Hypotheses...),
	}
	if p.Blocked != "" {
		v.Blocked = &p.Blocked
	}
	return v
}

// CheckDrill refuses what cannot be the name or the ID of a drill.
func CheckDrill(name string) error {
	if name == "" || len(name) > maxParam || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		strings.Trim(name, ".") == "" {
		return fmt.Errorf("%s cannot be a drill: a name has 1 to %d bytes, and is printable", quoteName(name), maxParam)
	}
	return nil
}

func freezeOf(f drill.Freeze) DrillFreeze {
	return DrillFreeze{Frozen: f.On, By: f.Actor, Reason: f.Reason, Since: Time{f.Since}}
}

func drillSummaryOf(s drill.State) DrillSummary {
	row := DrillSummary{
		ID: s.Spec.ID, Name: s.Spec.Name, Note: s.Spec.Note, Owner: s.Spec.Owner, BuiltIn: s.Spec.BuiltIn,
		Target: string(s.Spec.Target), Pool: s.Spec.Pool, Schedule: s.Spec.Schedule, Zone: s.Spec.Zone, NextRuns: []DrillNextRun{},
		LastPassedAt: Time{s.LastPassed}, Overdue: s.Overdue, Problems: append([]string{}, s.Problems...),
	}
	for _, d := range s.Next {
		row.NextRuns = append(row.NextRuns, DrillNextRun{At: Time{d.At}, Local: InZone(d.At, s.Spec.Zone), Note: d.Note})
	}
	if s.Running != "" {
		row.Running = &s.Running
	}
	if r := s.Last; r != nil {
		row.Last = &DrillLast{Run: r.ID, Verdict: string(r.Verdict), Reason: r.Reason, At: Time{r.Started}}
		if r.Started.IsZero() { // it never began
			row.Last.At = Time{r.Scheduled}
		}
	}
	return row
}

// InZone shows a time in a zone by name, with its offset; in UTC if there is no
// such zone.
func InZone(t time.Time, zone string) string {
	where, err := time.LoadLocation(zone)
	if err != nil {
		where = time.UTC
	}
	return t.In(where).Format("2006-01-02T15:04:05Z07:00")
}

const (
	// MaxExport is how many runs one export holds at most.
	MaxExport     = 5000
	exportTimeout = 30 * time.Second
	// exportSchema names the shape of an export. What is in it stays; more may come.
	exportSchema = "headgate.runs/1"
)

// DrillExport is the reply to GET /api/v1/runs.json.
type DrillExport struct {
	Schema string      `json:"schema"`
	Items  []drill.Run `json:"items"`
	Next   string      `json:"next"` // for ?after=; empty if this is all
}

// exportRuns reads as many runs as one export holds, or as the parameters ask for.
func (a *Admin) exportRuns(r *http.Request, values url.Values) (runs []drill.Run, next string, err error) {
	q, err := RunQuery(values, time.Now())
	if err != nil {
		return nil, "", invalid(err)
	}
	want := MaxExport
	if values.Has("limit") {
		want = q.Limit
	}
	runs, err = withDrills(r.Context(), a, exportTimeout, "export runs", func(ctx context.Context) (all []drill.Run, err error) {
		for more := true; more; {
			q.Limit = min(want-len(all), MaxPage)
			var part []drill.Run
			if part, next, err = a.config.Drills.Runs.Runs(ctx, q); err != nil {
				return nil, err
			}
			all = append(all, part...)
			more = next != "" && next != q.After && len(all) < want
			q.After = next
		}
		return RunSummaries(all), nil
	})
	return runs, next, err
}

func (a *Admin) exportJSON(w http.ResponseWriter, r *http.Request, values url.Values) (any, error) {
	runs, next, err := a.exportRuns(r, values)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="headgate-runs.json"`)
	return DrillExport{Schema: exportSchema, Items: runs, Next: next}, nil
}

func (a *Admin) exportCSV(w http.ResponseWriter, r *http.Request, values url.Values) (any, error) {
	runs, next, err := a.exportRuns(r, values)
	if err != nil {
		return nil, err
	}
	if next != "" {
		values.Set("after", next)
		w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, r.URL.EscapedPath(), values.Encode()))
	}
	w.Header().Set("Content-Disposition", `attachment; filename="headgate-runs.csv"`)
	writeHeader(w, http.StatusOK, "text/csv; charset=utf-8; header=present")
	_ = WriteRunsCSV(w, runs) // the caller may have gone
	return nil, nil
}

// runColumns are the columns of the CSV. They stay; more may come behind them.
func runColumns() []string {
	return []string{
		"id", "drill", "name", "spec_version", "target", "trigger", "actor", "scheduled_at", "started_at", "ended_at", "duration_s", "speed",
		"status", "verdict", "reason", "missed", "tightest", "value", "limit", "unit", "margin", "missed_by", "injected", "clear_took_s",
		"recovered_s", "version",
	}
}

// WriteRunsCSV writes runs as CSV with a heading. No cell begins with a character
// that makes spreadsheets take it for a formula: such texts get an apostrophe
// before them.
func WriteRunsCSV(w io.Writer, runs []drill.Run) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true // as RFC 4180 has it
	if err := out.Write(runColumns()); err != nil {
		return err
	}
	for _, r := range runs {
		cells := runCells(r)
		for n := range cells {
			cells[n] = escapeFormula(cells[n])
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func runCells(r drill.Run) []string {
	cells := []string{
		r.ID, r.Drill, r.Name, r.SpecVersion, string(r.Target), string(r.Trigger), r.Actor, timeCell(r.Scheduled), timeCell(r.Started), timeCell(r.Ended),
		secondsCell(r.Took(), !r.Started.IsZero() && !r.Ended.IsZero()), numberCell(r.Speed), string(r.Status), string(r.Verdict), r.Reason, strconv.Itoa(r.Count),
	}
	tightest := make([]string, 6)
	if h, ok := r.Tightest(); ok {
		tightest = []string{string(h.Measure), numberCell(h.Value), numberCell(h.Limit), h.Unit, "", ""}
		if h.Margin >= 0 {
			tightest[4] = numberCell(h.Margin)
		} else {
			tightest[5] = numberCell(-h.Margin) // a separate column, so that no cell begins with a minus
		}
	}
	return append(append(cells, tightest...), strconv.Itoa(r.Injected), secondsCell(r.ClearTook, r.ClearTook > 0), secondsCell(r.Recovered, r.Recovered > 0), r.Version)
}

func timeCell(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatTime(t)
}

func secondsCell(d time.Duration, known bool) string {
	if !known {
		return ""
	}
	return numberCell(control.Seconds(d))
}

func numberCell(v float64) string { return strconv.FormatFloat(drill.Finite(v), 'f', -1, 64) }

// escapeFormula makes a cell a text that spreadsheets leave alone.
func escapeFormula(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) || strings.HasPrefix(cell, "＝") || strings.HasPrefix(cell, "＋") ||
		strings.HasPrefix(cell, "－") || strings.HasPrefix(cell, "＠") {
		return "'" + cell
	}
	return cell
}
