package api

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

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

// exportRuns reads as many runs as one export holds.
func (a *Admin) exportRuns(w http.ResponseWriter, r *http.Request) (runs []drill.Run, next string, ok bool) {
	var q drill.Query
	values, err := parseQuery(r, runParamNames()...)
	if err == nil {
		if q, err = RunQuery(values, time.Now()); err != nil {
			err = invalid(err)
		}
	}
	if err != nil {
		a.reply(w, r, nil, err)
		return nil, "", false
	}
	want := MaxExport
	if values.Has("limit") {
		want = q.Limit
	}
	ctx, cancel := context.WithTimeout(r.Context(), exportTimeout)
	defer cancel()
	for {
		q.Limit = min(want-len(runs), MaxPage)
		page, next, err := a.drills.Runs.Runs(ctx, q)
		if err != nil {
			a.reply(w, r, nil, a.drillProblem("export runs", err))
			return nil, "", false
		}
		runs = append(runs, page...)
		if next == "" || next == q.After || len(runs) >= want {
			return runs, next, true
		}
		q.After = next
	}
}

func (a *Admin) exportJSON(w http.ResponseWriter, r *http.Request) {
	runs, next, ok := a.exportRuns(w, r)
	if !ok {
		return
	}
	w.Header().Set("Content-Disposition", `attachment; filename="headgate-runs.json"`)
	writeJSON(w, http.StatusOK, "application/json", DrillExport{Schema: exportSchema, Items: RunSummaries(runs), Next: next})
}

func (a *Admin) exportCSV(w http.ResponseWriter, r *http.Request) {
	runs, next, ok := a.exportRuns(w, r)
	if !ok {
		return
	}
	h := w.Header()
	if next != "" {
		values := r.URL.Query()
		values.Set("after", next)
		h.Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, r.URL.EscapedPath(), values.Encode()))
	}
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="headgate-runs.csv"`)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = WriteRunsCSV(w, RunSummaries(runs)) // the caller may have gone
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
			tightest[5] = numberCell(-h.Margin) // a column of its own, so that no cell begins with a minus
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
