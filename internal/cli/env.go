package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"headgate/alerts/slack"
	"headgate/internal/app"
	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/internal/strictyaml"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// The exit codes, as docs/commands.md lists them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2 // usage or configuration error
	ExitUnreachable = 3 // the service could not be reached in any way
	ExitUnexpected  = 4 // ran, but the expected result was not reached
)

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error
}

// Error returns the text of the error itself.
func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns the error itself, for errors.Is and errors.As.
func (e Error) Unwrap() error { return e.Err }

// Usage makes err a usage error.
func Usage(err error) error { return Error{ExitUsage, err} }

// Usagef formats a usage error.
func Usagef(text string, args ...any) error { return Usage(fmt.Errorf(text, args...)) }

// ExitCode returns the exit code of an error: that of the outermost Error, else what
// configuration errors and an unreachable service imply.
func ExitCode(err error) int {
	var coded Error
	var diagnostic strictyaml.Diagnostic // also of Diagnostics, which unwrap to it
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &diagnostic):
		return ExitUsage
	case isUnreachable(err):
		return ExitUnreachable
	default:
		return ExitFailed
	}
}

// isUnreachable reports whether err means that no answer came from the service.
func isUnreachable(err error) bool {
	_, ok := errors.AsType[*api.UnreachableError](err)
	return ok
}

// Env is what commands use of the machine that they run on. Tests replace parts of it.
type Env struct {
	Now       func() time.Time
	LookupEnv func(string) (string, bool)
	Actor     func() string // who runs the command, as the audit log shows it

	Token            func(dir string) (config.Secret, error)
	QueueModeRequest func(ctx context.Context, dir string, r control.ModeRequest) (QueuedRequest, error)
	ReadAudit        func(ctx context.Context, dir string, q control.AuditQuery) (control.AuditPage, error)
	Backup           func(ctx context.Context, dir, file string) error
	TestAlerts       func(ctx context.Context, c *config.Config) ([]slack.Check, error)

	QueueTimeout   time.Duration // limits writing a request to the database, and a read of the audit log
	ConfirmTimeout time.Duration // limits the wait for a queued request to be applied
}

// System returns the environment of this process.
func System() Env {
	return Env{
		Now: time.Now, LookupEnv: os.LookupEnv, Actor: WhoAmI,
		Token: readToken, QueueModeRequest: queueModeRequest, ReadAudit: sqlite.ReadAudit, Backup: sqlite.BackupFrom,
		TestAlerts: app.TestAlerts, QueueTimeout: 5 * time.Second,
		ConfirmTimeout: 2 * time.Second, // the service takes a queued request within one
	}
}

// WhoAmI returns user@host. Under sudo it names the calling user: on-call needs to
// know whom to ask, and "root" does not say.
func WhoAmI() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if os.Geteuid() == 0 {
		name = cmp.Or(os.Getenv("SUDO_USER"), name)
	}
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return actorName(cmp.Or(name, "unknown") + "@" + machine)
}

// actorName replaces characters that the API does not accept in the name of an actor.
func actorName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), api.MaxActor)]
}
