package app

import (
	"context"

	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/web/api"
	"headgate/web/auth"
)

// Token reads the token of the admin API from a data directory. The error is fs.ErrNotExist if there is none yet.
func Token(dir string) (config.Secret, error) {
	token, err := auth.ReadToken(dir)
	return config.NewSecret(token), err
}

// QueuedRequest is an order that was left in the record.
type QueuedRequest struct {
	Number  int64  // its number in the record
	Running bool   // a process serves from there, and will carry it out within a second
	Owner   string // that process, for people
}

// QueueModeRequest leaves an order in the record of a data directory, for the
// process that serves from there, now or next. It is for when that process does
// not answer.
func QueueModeRequest(ctx context.Context, dir string, o control.ModeRequest) (QueuedRequest, error) {
	number, err := sqlite.QueueRequest(ctx, dir, o)
	if err != nil {
		return QueuedRequest{}, err
	}
	left := QueuedRequest{Number: number}
	// A running service is notified if possible; the request is kept in any case.
	if holder, running, err := sqlite.Running(dir); err == nil && running {
		left.Running, left.Owner = true, holder.String()
	}
	return left, nil
}

// ReadAudit reads what is recorded in a data directory, newest first, whether a
// process serves from there or not.
func ReadAudit(ctx context.Context, dir string, q control.AuditQuery) (control.AuditPage, error) {
	return sqlite.ReadAudit(ctx, dir, q)
}

// RecordedRuns reads the runs of drills in a data directory, whether a process serves
// from there or not.
type RecordedRuns struct{ Dir string }

// Runs returns a page of runs, newest first.
func (r RecordedRuns) Runs(ctx context.Context, q drill.Query) (api.DrillRunList, error) {
	runs, next, err := sqlite.ReadRuns(ctx, r.Dir, q)
	return api.DrillRunList{Items: api.RunSummaries(runs), Next: next}, err
}

// Run returns one run as it was recorded last. Series is as for api.Client.Run.
func (r RecordedRuns) Run(ctx context.Context, id, series string) (drill.Run, error) {
	run, err := sqlite.ReadRun(ctx, r.Dir, id)
	if err != nil {
		return drill.Run{}, err
	}
	if series != api.FullSeries {
		run.Series = run.Series[max(0, len(run.Series)-1):]
	}
	return run.Report(false), nil
}

// Backup copies the record of a data directory into a new file, whether a
// process serves from there or not.
func Backup(ctx context.Context, dir, path string) error { return sqlite.BackupFrom(ctx, dir, path) }
