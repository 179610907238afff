package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The first attempt that fails hands pages over: nothing else need happen for it.
func TestRecorderReportsPagesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		r.signals.set(ruleKey, page)
		advance(10 * time.Second)
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		same(t, "before the page", r.unrecorded.events())
		advance(time.Second)
		same(t, "at the page", r.unrecorded.events(), "2 escalated page")
		advance(time.Minute)
		same(t, "a minute later", r.unrecorded.events(), "2 escalated page")
		r.journal.fail(nil)
		r.stop()
	})
}

// While it fails, attempts become rare, however much comes; pages do not wait for
// the next one.
func TestRecorderBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(o *Options) { o.Rules[0].Page.For = 120 * time.Second })
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		r.start()
		r.signals.set(ruleKey, warn)
		for n := range 119 { // each step changes the incident, and so is a batch
			r.signals.set(ruleKey, Value{V: 25 + float64(n)})
			advance(time.Second)
		}
		attempts := r.metric("headgate_journal_errors_total", "save_incidents")
		if attempts < 20 || attempts > 32 {
			t.Errorf("%v attempts in two minutes, want about one in five seconds", attempts)
		}
		advance(2 * time.Second)
		same(t, "unrecorded at the page", r.unrecorded.events(), "2 escalated page")
		if got := r.metric("headgate_journal_errors_total", "save_incidents"); got > attempts+1 {
			t.Errorf("%v attempts for it", got-attempts)
		}
		r.journal.fail(nil)
		advance(lastRetry)
		same(t, "journal", r.journal.events(), "1 opened warn", "2 escalated page")
		r.signals.set(ruleKey, low)
		advance(time.Second)
		same(t, "journal, at once again", r.journal.events(), "1 opened warn", "2 escalated page", "3 recovering page")
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		before := r.metric("headgate_journal_errors_total", "save_incidents")
		advance(2 * time.Second)
		if got := r.metric("headgate_journal_errors_total", "save_incidents") - before; got < 4 {
			t.Errorf("%v attempts in two seconds of a new failure: it begins with short pauses", got)
		}
		r.journal.fail(nil)
		r.stop()
	})
}
