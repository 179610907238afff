package tsdb

import (
	"context"
	"log/slog"
)

// levelFilter is a log handler that lowers what is below a warning to debug: TSDB
// speaks of every block that it writes.
type levelFilter struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w levelFilter) Enabled(ctx context.Context, l slog.Level) bool {
	return w.Handler.Enabled(ctx, demoteLevel(l))
}

// Handle implements slog.Handler.
func (w levelFilter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demoteLevel(r.Level)
	return w.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (w levelFilter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelFilter{w.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (w levelFilter) WithGroup(name string) slog.Handler {
	return levelFilter{w.Handler.WithGroup(name)}
}

func demoteLevel(l slog.Level) slog.Level {
	if l < slog.LevelWarn {
		return min(l, slog.LevelDebug)
	}
	return l
}
