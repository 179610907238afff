package main

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"strings"
	"time"

	"headgate/internal/app"
	"headgate/internal/config"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// environment is what commands use of the machine that they run on.
type environment struct {
	now       func() time.Time
	lookupEnv func(string) (string, bool)
	actor     func() string // who runs the command, as the record shows it

	token        func(dir string) (config.Secret, error)
	leaveRequest func(ctx context.Context, dir string, o control.ModeRequest) (app.QueuedRequest, error)
	readAudit    func(ctx context.Context, dir string, q api.AuditQuery) (api.AuditRecords, error)
	backup       func(ctx context.Context, dir, file string) error

	testAlerts func(ctx context.Context, c *config.Config) ([]alertCheck, error) // whether messages would arrive
}

// systemEnvironment is the machine itself.
func systemEnvironment() environment {
	return environment{
		now: time.Now, lookupEnv: os.LookupEnv, actor: whoami,
		token: app.Token, leaveRequest: app.QueueModeRequest, readAudit: app.ReadAudit, backup: app.Backup,
		testAlerts: verifyAlerts,
	}
}

// whoami returns user@host. Behind sudo it is the one who called it: on-call
// wants to know whom to ask, and root answers nothing.
func whoami() string {
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

// actorName makes sure that an unusual name is no reason to refuse an order.
func actorName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), api.MaxActor)]
}
