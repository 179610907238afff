package sqlite

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"headgate/runbooks/drill"
)

// The reasons of runs that were closed as interrupted.
const (
	interruptedReason = "the process ended during the run"
	leaseEndedReason  = "its lease expired without an update"
)

// singletonKey is the key of the tables that have one row.
const singletonKey = "drills"

var (
	// The columns beside body are those that are searched; everything else is in the body. The column cause holds
	// Run.Trigger, opening holds runRow.session: the columns keep their first names.
	runTable = table{name: "drill_runs", key: []string{"id"}, columns: []string{
		"id", "at_ms", "drill", "scheduled_ms", "status", "verdict", "cause", "fence", "opening", "body",
	}}
	partTable   = table{name: "drill_parts", key: []string{"run", "part"}, columns: []string{"run", "part", "body"}}
	seriesTable = table{name: "drill_series", key: []string{"run", "chunk"}, columns: []string{"run", "chunk", "points", "body"}}
	lockTable   = table{name: "drill_lock", key: []string{"name"}, columns: []string{
		"name", "run", "drill", "since_ms", "until_ms", "lease_ns", "fence",
	}}
	nameTable = table{name: "drill_names", key: []string{"name", "drill"}, columns: []string{"name", "drill"}}
)

// Words that runs may have; others are refused.
var (
	statuses = []drill.Status{drill.Claimed, drill.Running, drill.Ended}
	triggers = []drill.Trigger{drill.BySchedule, drill.ByCatchUp, drill.ByHand}
)

// runRow is a run as its row has it, without its parts.
type runRow struct {
	drill.Run
	at      time.Time // its place in the history
	session string    // of the record, by which it was claimed
}

// saveRow writes a run's row. The body has neither the parts nor the series.
func (w *txWriter) saveRow(text string, r runRow) {
	b := r.Run
	b.Spec, b.Reverts, b.Messages, b.Series = drill.Spec{}, nil, nil, nil
	b.Phases, b.Hypotheses = fitItems(b.Phases, maxBody/5), fitItems(b.Hypotheses, maxBody*7/10)
	writeBody(w, text, b, r.ID, ms(r.at), r.Drill, ms(r.Scheduled), string(r.Status), string(r.Verdict), string(r.Trigger),
		max(r.Fence, 0), r.session)
}

// updateRunSQL updates the row of a run. The columns that it names were set by the claim, and keep their values.
func updateRunSQL() string {
	return runTable.upsertSQL("at_ms", "drill", "scheduled_ms", "cause", "fence", "opening")
}

func decodeRun(r *row) runRow {
	run := decodeBody[drill.Run](r, "body")
	if run.ID != r.id("id") {
		r.fail("body")
	}
	run.Drill, run.Scheduled, run.Trigger = r.keyName("drill"), r.optionalTime("scheduled_ms"), drill.Trigger(r.word("cause"))
	run.Status, run.Verdict, run.Fence = oneOf(r, "status", statuses), drill.Verdict(r.word("verdict")), r.number("fence", maxNumber)
	if (run.Status == drill.Ended) != (run.Verdict != "") {
		r.fail("verdict")
	}
	return runRow{Run: run, at: r.time("at_ms"), session: r.name("opening")}
}

// validateRun refuses what could not be read back. Only a mistake in the program
// makes such a run.
func validateRun(r drill.Run) error {
	verdicts := []drill.Verdict{""} // of a run in progress
	if r.Status == drill.Ended {
		verdicts = drill.Verdicts()
	}
	return cmp.Or(checkID("its ID", r.ID), checkName("the ID of its drill", r.Drill), checkOneOf("its trigger", r.Trigger, triggers),
		checkOneOf("its status", r.Status, statuses), checkOneOf("its verdict", r.Verdict, verdicts))
}

// Parts of a run that are stored in separate rows, since lists do not read all of them.
const (
	partSpec     = "spec"
	partReverts  = "undo"
	partMessages = "messages"
)

// encodeSpec writes a spec, as it is frozen with a run.
func encodeSpec(s drill.Spec) (string, error) {
	text, err := encodeJSON(s)
	if err != nil {
		return "", err
	}
	if len(text) > maxBody {
		return "", fmt.Errorf("the spec of a drill must have at most %d bytes, has %d", maxBody, len(text))
	}
	return text, nil
}

// saveParts writes the parts of a run, and leaves what has not changed alone: a run is
// saved every second or so. The spec was written with its claim.
func (w *txWriter) saveParts(r drill.Run) {
	text := partTable.upsertSQL() + " WHERE excluded.body <> drill_parts.body"
	writeBody(w, text, fitItems(r.Reverts, maxBody), r.ID, partReverts)
	writeBody(w, text, fitItems(r.Messages, maxBody), r.ID, partMessages)
	w.saveSeries(r.ID, r.Series)
}

// decodePart puts a part where it belongs in its run, unless that is nil. Parts that later
// versions add are left out.
func decodePart(r *row, run *drill.Run) {
	if run == nil {
		return
	}
	switch r.word("part") {
	case partSpec:
		run.Spec = decodeBody[drill.Spec](r, "body")
	case partReverts:
		run.Reverts = decodeBody[[]drill.RevertResult](r, "body")
	case partMessages:
		run.Messages = decodeBody[[]drill.Message](r, "body")
	}
}

// loadRunRow reads a run without its parts.
func loadRunRow(r *reader, id string) (run runRow, found bool) {
	return queryOne(r, runTable, decodeRun, runTable.selectSQL()+"WHERE id = ?", id)
}

// loadRun reads a run with all of it. It fails with drill.ErrNoRun if there is none.
func loadRun(r *reader, id string) runRow {
	run, found := loadRunRow(r, id)
	if !found {
		r.fail(drill.ErrNoRun)
	}
	queryEach(r, partTable, func(r *row) { decodePart(r, &run.Run) }, partTable.selectSQL()+"WHERE run = ?", id)
	run.Series = loadSeries(r, id)
	return run
}

// Drills implements drill.Store and drill.DueTimeStore, and sums up the history. It is
// safe for concurrent use.
type Drills struct{ store *Store }

// Drills returns the memory of drills.
func (s *Store) Drills() *Drills { return &Drills{store: s} }

// Claim implements drill.Store. It may be repeated with the same run while that
// goes on. A run whose lease has run out is closed as interrupted.
func (d *Drills) Claim(ctx context.Context, now time.Time, r drill.Run, lease time.Duration) (fence int64, err error) {
	const doing = "claim a run of a drill"
	r.Status, r.Verdict = drill.Claimed, ""
	spec, err := encodeSpec(r.Spec)
	if err := errors.Join(err, validateRun(r)); err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	if lease <= 0 {
		return 0, fmt.Errorf("%s: its lease must be above 0", doing)
	}
	return write(ctx, d.store, doing, func(w *txWriter) int64 { return w.claim(now, r, spec, lease) })
}

// Save implements drill.Store.
func (d *Drills) Save(ctx context.Context, now time.Time, r drill.Run) error {
	const doing = "record a run of a drill"
	if err := validateRun(r); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return d.store.writeTx(ctx, doing, func(w *txWriter) { w.saveFenced(now, r) })
}

// RecordNotRun implements drill.Store. ErrClaimed: there is a run of that occurrence.
func (d *Drills) RecordNotRun(ctx context.Context, r drill.Run) error {
	const doing = "record a drill that did not run"
	spec, err := encodeSpec(r.Spec)
	if err := errors.Join(err, validateRun(r), checkOneOf("its status", r.Status, []drill.Status{drill.Ended})); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return d.store.writeTx(ctx, doing, func(w *txWriter) { w.recordEnded(r, spec) })
}

// CloseInterrupted implements drill.Store. A process that holds the lock file of the data directory is the only one, so
// it closes every unfinished run of earlier processes. Without a lock file it closes those whose lease has run out.
func (d *Drills) CloseInterrupted(ctx context.Context, now time.Time) ([]drill.Run, error) {
	return write(ctx, d.store, "close the runs that were interrupted", func(w *txWriter) []drill.Run {
		return w.interrupt(now, d.store.lockFile != nil)
	})
}

func (w *txWriter) claim(now time.Time, r drill.Run, spec string, lease time.Duration) (fence int64) {
	lock := w.loadLock()
	if lock.run == r.ID && lock.run != "" {
		return lock.fence // an attempt of unknown outcome is repeated
	}
	w.checkUnclaimed(r)
	if loadFreeze(&w.reader).On {
		w.fail(drill.ErrFrozen)
	}
	if lock.run != "" && now.Before(lock.until) {
		w.fail(&drill.BusyError{Run: lock.run, Drill: lock.drill, Since: lock.since})
	}
	if lock.run != "" {
		w.closeRun(now, lock.run, leaseEndedReason)
	}
	r.Fence = lock.fence + 1
	w.insertRun(runRow{Run: r, at: now, session: w.session}, spec)
	w.saveLock(drillLock{run: r.ID, drill: r.Name, since: now, until: now.Add(lease), lease: lease, fence: r.Fence})
	return r.Fence
}

// checkUnclaimed fails with drill.ErrClaimed if there is a run with that ID, or of that
// occurrence.
func (w *txWriter) checkUnclaimed(r drill.Run) {
	if exists(&w.reader,
		"SELECT id FROM drill_runs WHERE id = ? UNION ALL SELECT id FROM drill_runs WHERE drill = ? AND scheduled_ms = ? AND scheduled_ms > 0 LIMIT 1",
		r.ID, r.Drill, ms(r.Scheduled)) {
		w.fail(drill.ErrClaimed)
	}
}

// insertRun writes a new run.
func (w *txWriter) insertRun(r runRow, spec string) {
	w.saveRow(runTable.insertSQL(), r)
	w.writeRow(partTable.upsertSQL(), r.ID, partSpec, spec)
	w.writeRow(nameTable.insertIgnoreSQL(), cleanName(r.Name), r.Drill)
	w.saveParts(r.Run)
}

func (w *txWriter) saveFenced(now time.Time, r drill.Run) {
	row, found := loadRunRow(&w.reader, r.ID)
	lock := w.loadLock()
	switch {
	case !found:
		w.fail(drill.ErrNoRun)
	case row.Status == drill.Ended && row.Fence == r.Fence && r.Status == drill.Ended && row.Verdict == r.Verdict:
		return // an attempt of unknown outcome is repeated
	case row.Status == drill.Ended, lock.run != r.ID, lock.fence != r.Fence:
		w.fail(drill.ErrLockLost)
	}
	w.saveRun(now, runRow{Run: r, at: row.at, session: row.session}, lock)
}

// saveRun writes a run and renews its lock, or gives it back when the run has ended.
func (w *txWriter) saveRun(now time.Time, r runRow, lock drillLock) {
	w.updateRun(r)
	lock.until = now.Add(lock.lease)
	if r.Status == drill.Ended {
		lock = drillLock{fence: lock.fence}
	}
	w.saveLock(lock)
}

// updateRun writes how far a run has come, and sums it up when it has ended.
func (w *txWriter) updateRun(r runRow) {
	w.saveRow(updateRunSQL(), r)
	w.saveParts(r.Run)
	if r.Status == drill.Ended {
		w.updateSummaries(r)
	}
}

func (w *txWriter) recordEnded(r drill.Run, spec string) {
	row, found := loadRunRow(&w.reader, r.ID)
	if found && row.Status == drill.Ended && row.Verdict == r.Verdict && row.Drill == r.Drill {
		return // an attempt of unknown outcome is repeated
	}
	w.checkUnclaimed(r)
	ended := runRow{Run: r, at: firstNonZero(r.Started, r.Scheduled, r.Ended), session: w.session}
	w.insertRun(ended, spec)
	w.updateSummaries(ended)
}

func firstNonZero(times ...time.Time) (t time.Time) {
	for _, t = range times {
		if !t.IsZero() {
			break
		}
	}
	return t
}

const selectUnfinished = `SELECT id, opening FROM drill_runs WHERE status <> 'ended' ORDER BY at_ms, id LIMIT ?`

func (w *txWriter) interrupt(now time.Time, alone bool) (closed []drill.Run) {
	lock := w.loadLock()
	type openRun struct{ id, session string }
	for _, open := range query(&w.reader, runTable, func(r *row) openRun { return openRun{r.id("id"), r.name("opening")} },
		selectUnfinished, maxItems) {
		locked := lock.run == open.id
		if open.session == w.session || locked && now.Before(lock.until) && !alone {
			continue
		}
		closed = append(closed, w.closeRun(now, open.id, interruptedReason))
		if locked {
			w.saveLock(drillLock{fence: lock.fence})
		}
	}
	return closed
}

// closeRun ends a run as interrupted, and returns it with all of it.
func (w *txWriter) closeRun(now time.Time, id, why string) drill.Run {
	row := loadRun(&w.reader, id)
	if row.Status == drill.Ended {
		return row.Run
	}
	row.Status, row.Verdict, row.Reason, row.Ended = drill.Ended, drill.Interrupted, why, now.UTC().Truncate(time.Millisecond)
	for n := range row.Phases {
		if p := &row.Phases[n]; p.Ended.IsZero() {
			p.Ended = row.Ended
		}
	}
	w.updateRun(row)
	return row.Run
}

// drillLock is the lock that a run holds while it is in progress; only one run can hold it. Its field run is empty
// while no run does.
type drillLock struct {
	run, drill   string
	since, until time.Time
	lease        time.Duration
	fence        int64
}

// loadLock reads the lock; its zero value, when there is none yet, is free.
func (w *txWriter) loadLock() drillLock {
	lock, _ := queryOne(&w.reader, lockTable, func(r *row) drillLock {
		return drillLock{
			run: r.optionalID("run"), drill: r.name("drill"), since: r.optionalTime("since_ms"), until: r.optionalTime("until_ms"),
			lease: time.Duration(r.number("lease_ns", math.MaxInt64)), fence: r.number("fence", maxNumber-1),
		}
	}, lockTable.selectSQL()+"WHERE name = ?", singletonKey)
	return lock
}

func (w *txWriter) saveLock(lock drillLock) {
	w.writeRow(lockTable.upsertSQL(), singletonKey, lock.run, cleanName(lock.drill), ms(lock.since), ms(lock.until), int64(lock.lease), lock.fence)
}

// pointsPerChunk is how many points are in one row: at its largest, a row must fit into
// maxLength.
const pointsPerChunk = 600

// maxMillis bounds the times of points, so that sums of them fit.
const maxMillis = 1 << 40

const maxChunks = (drill.MaxPoints + pointsPerChunk - 1) / pointsPerChunk

// saveSeries writes the points that are new. Points are only ever added to a
// series, so that a chunk with as many as before is left alone.
func (w *txWriter) saveSeries(run string, points []drill.Point) {
	points = points[:min(len(points), drill.MaxPoints)]
	there := map[int64]int64{}
	queryEach(&w.reader, seriesTable, func(r *row) { there[r.number("chunk", maxNumber)] = r.number("points", maxNumber) },
		"SELECT chunk, points FROM drill_series WHERE run = ?", run)
	var n int64
	for chunk := range slices.Chunk(points, pointsPerChunk) {
		if there[n] != int64(len(chunk)) {
			w.writeRow(seriesTable.upsertSQL(), run, n, int64(len(chunk)), packPoints(chunk))
		}
		n++
	}
	if int64(len(there)) > n {
		w.exec("DELETE FROM drill_series WHERE run = ? AND chunk >= ?", run, n)
	}
}

// loadSeries reads the series of a run.
func loadSeries(r *reader, run string) (points []drill.Point) {
	var want int64
	queryEach(r, seriesTable, func(r *row) {
		if r.number("chunk", maxChunks) != want {
			r.fail("chunk")
		}
		want++
		chunk, ok := unpackPoints(r.raw("body"), int(r.number("points", pointsPerChunk)))
		if !ok {
			r.fail("body")
		}
		points = append(points, chunk...)
	}, seriesTable.selectSQL()+"WHERE run = ? ORDER BY chunk LIMIT ?", run, maxChunks+1)
	return points[:min(len(points), drill.MaxPoints)]
}

// packPoints writes points: nine numbers each, as varints, times in milliseconds
// and the first as the difference from the point before.
func packPoints(points []drill.Point) string {
	var out []byte
	var before int64
	for _, p := range points {
		at := toMillis(p.At)
		out = binary.AppendVarint(out, at-before)
		before = at
		late := uint64(0) // nothing ended
		if p.Turnaround >= 0 {
			late = uint64(toMillis(p.Turnaround)) + 1
		}
		out = binary.AppendUvarint(out, late)
		out = binary.AppendUvarint(out, uint64(max(toMillis(p.QueueAge), 0)))
		for _, n := range []int{p.Depth, p.InFlight, p.Arrived, p.Served, p.Refused, p.Errors} {
			out = binary.AppendUvarint(out, uint64(clampCount(n)))
		}
	}
	return base64.RawStdEncoding.EncodeToString(out)
}

// toMillis makes seconds milliseconds.
func toMillis(s float64) int64 {
	return int64(math.Round(min(max(finiteOrZero(s)*1000, -maxMillis), maxMillis)))
}

// unpackPoints reads n points that packPoints has written, and nothing else.
func unpackPoints(body string, n int) ([]drill.Point, bool) {
	raw, err := base64.RawStdEncoding.Strict().DecodeString(body)
	if err != nil {
		return nil, false
	}
	r := varintReader{rest: raw}
	points := make([]drill.Point, 0, n)
	var at int64
	for range n {
		at += r.varint()
		late, age := r.uvarint(maxMillis+1), r.uvarint(maxMillis)
		p := drill.Point{At: float64(at) / 1000, Turnaround: -1, QueueAge: float64(age) / 1000}
		if late > 0 {
			p.Turnaround = float64(late-1) / 1000
		}
		for _, into := range []*int{&p.Depth, &p.InFlight, &p.Arrived, &p.Served, &p.Refused, &p.Errors} {
			*into = int(r.uvarint(math.MaxInt32))
		}
		points = append(points, p)
		if r.failed || at < -maxMillis || at > maxMillis {
			return nil, false
		}
	}
	return points, len(r.rest) == 0
}

// varintReader reads varints. After the first invalid one it reads zeroes.
type varintReader struct {
	rest   []byte
	failed bool
}

func (u *varintReader) varint() int64 {
	v, n := binary.Varint(u.rest)
	if !u.skip(n, v >= -2*maxMillis && v <= 2*maxMillis) {
		return 0
	}
	return v
}

func (u *varintReader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(u.rest)
	if !u.skip(n, v <= most) {
		return 0
	}
	return v
}

// skip passes over n bytes, whose value is valid.
func (u *varintReader) skip(n int, valid bool) bool {
	if n <= 0 || !valid {
		u.failed, u.rest = true, nil
		return false
	}
	u.rest = u.rest[n:]
	return true
}
