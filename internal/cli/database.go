package cli

import (
	"context"

	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/web/api"
	"headgate/web/auth"
)

// readToken reads the token of the admin API from a data directory. The error is fs.ErrNotExist if there is none yet.
func readToken(dir string) (config.Secret, error) {
	token, err := auth.ReadToken(dir)
	return config.NewSecret(token), err
}

// QueuedRequest is a mode request that was queued in a database.
type QueuedRequest struct {
	Number  int64
	Running bool   // a process uses the database, and will apply the request within a second
	Owner   string // that process, as text
}

// queueModeRequest queues a request in the database of a data directory, for the process that uses it now or next. It is
// for a process that does not answer.
func queueModeRequest(ctx context.Context, dir string, r control.ModeRequest) (QueuedRequest, error) {
	number, err := sqlite.QueueRequest(ctx, dir, r)
	if err != nil {
		return QueuedRequest{}, err
	}
	queued := QueuedRequest{Number: number}
	// The request is queued in any case, so that an error here is not one of the request.
	if owner, running, err := sqlite.Running(dir); err == nil && running {
		queued.Running, queued.Owner = true, owner.String()
	}
	return queued, nil
}

// recordedRuns reads the runs of drills from the database of a data directory, whether a process uses it or not.
type recordedRuns struct{ dir string }

// Runs returns a page of runs, newest first.
func (r recordedRuns) Runs(ctx context.Context, q drill.Query) (api.DrillRunList, error) {
	runs, next, err := sqlite.ReadRuns(ctx, r.dir, q)
	return api.DrillRunList{Items: api.RunSummaries(runs), Next: next}, err
}

// Run returns one run as it was recorded last. Series is as for api.Client.Run.
func (r recordedRuns) Run(ctx context.Context, id, series string) (drill.Run, error) {
	run, err := sqlite.ReadRun(ctx, r.dir, id)
	if err != nil {
		return drill.Run{}, err
	}
	if series != api.FullSeries {
		run.Series = run.Series[max(0, len(run.Series)-1):]
	}
	return run.Report(false), nil
}
