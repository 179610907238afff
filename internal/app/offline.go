package app

import (
	"context"

	"headgate/internal/sqlite"
	"headgate/runbooks"
	"headgate/web"
)

// LeftRequest is an order that was left in the record.
type LeftRequest struct {
	Number  int64  // its number in the record
	Running bool   // a process serves from there, and will carry it out within a second
	Holder  string // that process, for people
}

// LeaveRequest leaves an order in the record of a data directory, for the
// process that serves from there, now or next. It is for when that process does
// not answer.
func LeaveRequest(ctx context.Context, dir string, o runbooks.Order) (LeftRequest, error) {
	number, err := sqlite.LeaveRequest(ctx, dir, o)
	if err != nil {
		return LeftRequest{}, err
	}
	left := LeftRequest{Number: number}
	// Who serves is told as well as can be; the request stands in any case.
	if holder, running, err := sqlite.Running(dir); err == nil && running {
		left.Running, left.Holder = true, holder.String()
	}
	return left, nil
}

// ReadAudit reads what is recorded in a data directory, newest first, whether a
// process serves from there or not.
func ReadAudit(ctx context.Context, dir string, q web.ChangeQuery) (web.ChangePage, error) {
	return page(sqlite.ReadAudit(ctx, dir, filter(q)))
}

// Backup copies the record of a data directory into a new file, whether a
// process serves from there or not.
func Backup(ctx context.Context, dir, path string) error { return sqlite.BackupFrom(ctx, dir, path) }
