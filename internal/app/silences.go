package app

import (
	"context"
	"log/slog"
	"strings"

	"headgate/engine"
)

// announcedSilences is the engine for who silences rules: a silence is told in the threads of the
// incidents that it mutes, whichever way it was asked for, so that nobody wonders
// why a thread has gone quiet.
type announcedSilences struct {
	*engine.Engine
	log *slog.Logger
}

// Silence silences a rule as the engine does, and tells it. It stands without that.
func (t announcedSilences) Silence(ctx context.Context, s engine.Silence) (engine.SilenceResult, error) {
	done, err := t.Engine.Silence(ctx, s)
	if err != nil || !done.Applied {
		return done, err
	}
	s = done.Silence
	words := "until " + formatTime(s.Until)
	if s.Reason != "" {
		words += ", " + s.Reason
	}
	_, failed := t.Engine.Annotate(ctx, engine.Annotation{Kind: engine.EventSilenced, Rule: s.Rule, Pool: s.Pool, By: s.By, Text: truncateText(words)})
	if failed != nil {
		t.log.Warn("a silence is not told", "rule", s.Rule, "error", failed)
	}
	return done, nil
}

// truncateText bounds a text that somebody wrote, in bytes.
func truncateText(s string) string {
	const most = 900
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
