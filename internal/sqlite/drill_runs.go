package sqlite

import (
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
	// The columns beside body are those that are searched. Name and the like are in the body.
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
func (l *txWriter) saveRow(ctx context.Context, text string, r runRow) error {
	b := r.Run
	b.Spec, b.UndoResults, b.Messages, b.Series = drill.Spec{}, nil, nil, nil
	b.Phases, b.Hypotheses = fitItems(b.Phases, maxBody/5), fitItems(b.Hypotheses, maxBody*7/10)
	_, err := writeBody(ctx, l, text, b, r.ID, ms(r.at), r.Drill, ms(r.Scheduled), string(r.Status), string(r.Verdict), string(r.Trigger),
		max(r.Fence, 0), r.session)
	return err
}

// updateRunSQL writes how far a run has come. What was so from the beginning stays.
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
	switch {
	case !validID(r.ID):
		return fmt.Errorf("its ID must be 1 to %d letters, digits and dashes", maxID)
	case !isName(r.Drill):
		return fmt.Errorf("the ID of its drill must be a name of at most %d bytes", maxName)
	case !slices.Contains(triggers, r.Trigger):
		return fmt.Errorf("no such trigger: %.40q", r.Trigger)
	case !slices.Contains(statuses, r.Status):
		return fmt.Errorf("no such status: %.40q", r.Status)
	case r.Status == drill.Ended && !slices.Contains(drill.Verdicts(), r.Verdict):
		return fmt.Errorf("a run that has ended must have a verdict, and %.40q is none", r.Verdict)
	case r.Status != drill.Ended && r.Verdict != "":
		return errors.New("a run in progress has no verdict yet")
	}
	return nil
}

// Parts of a run that have rows of their own, since lists need not read all of them.
const (
	partSpec      = "spec"
	partRollbacks = "undo"
	partMessages  = "messages"
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
func (l *txWriter) saveParts(ctx context.Context, r drill.Run) error {
	text := partTable.upsertSQL() + " WHERE excluded.body <> drill_parts.body"
	if _, err := writeBody(ctx, l, text, fitItems(r.UndoResults, maxBody), r.ID, partRollbacks); err != nil {
		return err
	}
	if _, err := writeBody(ctx, l, text, fitItems(r.Messages, maxBody), r.ID, partMessages); err != nil {
		return err
	}
	return l.saveSeries(ctx, r.ID, r.Series)
}

// decodePart puts a part where it belongs in the run that it is of, if that is one of
// those asked for. Parts that later versions add are left out.
func decodePart(r *row, find func(id string) *drill.Run) {
	run := find(r.id("run"))
	if run == nil {
		return
	}
	switch r.word("part") {
	case partSpec:
		run.Spec = decodeBody[drill.Spec](r, "body")
	case partRollbacks:
		run.UndoResults = decodeBody[[]drill.UndoResult](r, "body")
	case partMessages:
		run.Messages = decodeBody[[]drill.Message](r, "body")
	}
}

// loadRunRow reads a run without its parts.
func loadRunRow(ctx context.Context, q queryer, id string) (runRow, error) {
	r, found, err := queryOne(ctx, q, runTable.name, decodeRun, runTable.selectSQL()+"WHERE id = ?", id)
	if err == nil && !found {
		err = drill.ErrNoRun
	}
	return r, err
}

// loadRun reads a run with all of it.
func loadRun(ctx context.Context, q queryer, id string) (runRow, error) {
	run, err := loadRunRow(ctx, q, id)
	if err != nil {
		return runRow{}, err
	}
	if _, err := query(ctx, q, partTable.name, func(r *row) struct{} {
		decodePart(r, func(string) *drill.Run { return &run.Run })
		return struct{}{}
	}, partTable.selectSQL()+"WHERE run = ?", id); err != nil {
		return runRow{}, err
	}
	run.Series, err = loadSeries(ctx, q, id)
	return run, err
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
	err = d.store.writeTx(ctx, doing, func(ctx context.Context, w *txWriter) (err error) {
		fence, err = w.claim(ctx, now, r, spec, lease)
		return err
	})
	if err != nil {
		return 0, err
	}
	return fence, nil
}

// Save implements drill.Store.
func (d *Drills) Save(ctx context.Context, now time.Time, r drill.Run) error {
	if err := validateRun(r); err != nil {
		return fmt.Errorf("record a run of a drill: %w", err)
	}
	return d.store.writeTx(ctx, "record a run of a drill", func(ctx context.Context, w *txWriter) error {
		return w.saveFenced(ctx, now, r)
	})
}

// RecordNotRun implements drill.Store. ErrClaimed: there is a run of that occurrence.
func (d *Drills) RecordNotRun(ctx context.Context, r drill.Run) error {
	spec, err := encodeSpec(r.Spec)
	if err := errors.Join(err, validateRun(r)); err != nil {
		return fmt.Errorf("record a drill that did not run: %w", err)
	}
	if r.Status != drill.Ended {
		return errors.New("record a drill that did not run: its status must be ended")
	}
	return d.store.writeTx(ctx, "record a drill that did not run", func(ctx context.Context, w *txWriter) error {
		return w.recordEnded(ctx, r, spec)
	})
}

// CloseInterrupted implements drill.Store. This process holds the data directory, so that
// all others are gone. Without a directory only those are whose lease has run out.
func (d *Drills) CloseInterrupted(ctx context.Context, now time.Time) (closed []drill.Run, err error) {
	err = d.store.writeTx(ctx, "close the runs that were interrupted", func(ctx context.Context, w *txWriter) (err error) {
		closed, err = w.interrupt(ctx, now, d.store.lockFile != nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return closed, nil
}

func (l *txWriter) claim(ctx context.Context, now time.Time, r drill.Run, spec string, lease time.Duration) (int64, error) {
	lock, err := l.loadLock(ctx)
	if err != nil {
		return 0, err
	}
	if lock.run == r.ID && lock.run != "" {
		return lock.fence, nil // an attempt of unknown outcome is repeated
	}
	if err := l.checkUnclaimed(ctx, r); err != nil {
		return 0, err
	}
	freeze, err := loadFreeze(ctx, l.tx)
	if err != nil {
		return 0, err
	}
	if freeze.On {
		return 0, drill.ErrFrozen
	}
	if lock.run != "" && now.Before(lock.until) {
		return 0, &drill.BusyError{Run: lock.run, Drill: lock.drill, Since: lock.since}
	}
	if lock.run != "" {
		if _, err := l.closeRun(ctx, now, lock.run, leaseEndedReason); err != nil {
			return 0, err
		}
	}
	r.Fence = lock.fence + 1
	if err := l.insertRun(ctx, runRow{Run: r, at: now, session: l.session}, spec); err != nil {
		return 0, err
	}
	lock = drillLock{run: r.ID, drill: r.Name, since: now, until: now.Add(lease), lease: lease, fence: r.Fence}
	return r.Fence, l.saveLock(ctx, lock)
}

// checkUnclaimed returns drill.ErrClaimed if there is a run with that ID, or of that
// occurrence.
func (l *txWriter) checkUnclaimed(ctx context.Context, r drill.Run) error {
	_, found, err := queryOne(ctx, l.tx, runTable.name, func(*row) bool { return true },
		"SELECT id FROM drill_runs WHERE id = ? UNION ALL SELECT id FROM drill_runs WHERE drill = ? AND scheduled_ms = ? AND scheduled_ms > 0 LIMIT 1",
		r.ID, r.Drill, ms(r.Scheduled))
	if err == nil && found {
		err = drill.ErrClaimed
	}
	return err
}

// insertRun writes a new run.
func (l *txWriter) insertRun(ctx context.Context, r runRow, spec string) error {
	if err := l.saveRow(ctx, runTable.insertSQL(), r); err != nil {
		return err
	}
	if _, err := l.writeRow(ctx, partTable.upsertSQL(), r.ID, partSpec, spec); err != nil {
		return err
	}
	if _, err := l.writeRow(ctx, nameTable.insertIgnoreSQL(), cleanName(r.Name), r.Drill); err != nil {
		return err
	}
	return l.saveParts(ctx, r.Run)
}

func (l *txWriter) saveFenced(ctx context.Context, now time.Time, r drill.Run) error {
	row, err := loadRunRow(ctx, l.tx, r.ID)
	if err != nil {
		return err
	}
	lock, err := l.loadLock(ctx)
	switch {
	case err != nil:
		return err
	case row.Status == drill.Ended && row.Fence == r.Fence && r.Status == drill.Ended && row.Verdict == r.Verdict:
		return nil // an attempt of unknown outcome is repeated
	case row.Status == drill.Ended, lock.run != r.ID, lock.fence != r.Fence:
		return drill.ErrLockLost
	}
	return l.saveRun(ctx, now, runRow{Run: r, at: row.at, session: row.session}, lock)
}

// saveRun writes a run and renews its lock, or gives it back when the run has ended.
func (l *txWriter) saveRun(ctx context.Context, now time.Time, r runRow, lock drillLock) error {
	if err := l.saveRow(ctx, updateRunSQL(), r); err != nil {
		return err
	}
	if err := l.saveParts(ctx, r.Run); err != nil {
		return err
	}
	lock.until = now.Add(lock.lease)
	if r.Status == drill.Ended {
		lock = drillLock{fence: lock.fence}
		if err := l.updateSummaries(ctx, r); err != nil {
			return err
		}
	}
	return l.saveLock(ctx, lock)
}

func (l *txWriter) recordEnded(ctx context.Context, r drill.Run, spec string) error {
	row, err := loadRunRow(ctx, l.tx, r.ID)
	switch {
	case err == nil && row.Status == drill.Ended && row.Verdict == r.Verdict && row.Drill == r.Drill:
		return nil // an attempt of unknown outcome is repeated
	case err == nil:
		return drill.ErrClaimed
	case !errors.Is(err, drill.ErrNoRun):
		return err
	}
	if err := l.checkUnclaimed(ctx, r); err != nil {
		return err
	}
	new := runRow{Run: r, at: firstNonZero(r.Started, r.Scheduled, r.Ended), session: l.session}
	if err := l.insertRun(ctx, new, spec); err != nil {
		return err
	}
	return l.updateSummaries(ctx, new)
}

func firstNonZero(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

const selectUnfinished = `SELECT id, opening FROM drill_runs WHERE status <> 'ended' ORDER BY at_ms, id LIMIT ?`

func (l *txWriter) interrupt(ctx context.Context, now time.Time, alone bool) (closed []drill.Run, err error) {
	lock, err := l.loadLock(ctx)
	if err != nil {
		return nil, err
	}
	type openRun struct{ id, session string }
	open, err := query(ctx, l.tx, runTable.name, func(r *row) openRun { return openRun{r.id("id"), r.name("opening")} },
		selectUnfinished, maxItems)
	if err != nil {
		return nil, err
	}
	for _, of := range open {
		id := of.id
		lives := lock.run == id && now.Before(lock.until)
		if of.session == l.session || lives && !alone {
			continue
		}
		r, err := l.closeRun(ctx, now, id, interruptedReason)
		if err != nil {
			return nil, err
		}
		closed = append(closed, r)
		if lock.run == id {
			lock = drillLock{fence: lock.fence}
			if err := l.saveLock(ctx, lock); err != nil {
				return nil, err
			}
		}
	}
	return closed, nil
}

// closeRun ends a run as interrupted, and returns it with all of it.
func (l *txWriter) closeRun(ctx context.Context, now time.Time, id, why string) (drill.Run, error) {
	row, err := loadRun(ctx, l.tx, id)
	if err != nil || row.Status == drill.Ended {
		return row.Run, err
	}
	row.Status, row.Verdict, row.Reason, row.Ended = drill.Ended, drill.Interrupted, why, now.UTC().Truncate(time.Millisecond)
	for n := range row.Phases {
		if p := &row.Phases[n]; p.Ended.IsZero() {
			p.Ended = row.Ended
		}
	}
	if err := l.saveRow(ctx, updateRunSQL(), row); err != nil {
		return row.Run, err
	}
	if err := l.saveParts(ctx, row.Run); err != nil {
		return row.Run, err
	}
	return row.Run, l.updateSummaries(ctx, row)
}

// drillLock is the lock under which a run is. Run is empty while it is free.
type drillLock struct {
	run, drill   string
	since, until time.Time
	lease        time.Duration
	fence        int64
}

// loadLock reads the lock; its zero value, when there is none yet, is free.
func (l *txWriter) loadLock(ctx context.Context) (drillLock, error) {
	lock, _, err := queryOne(ctx, l.tx, lockTable.name, func(r *row) drillLock {
		return drillLock{
			run: r.optionalID("run"), drill: r.name("drill"), since: r.optionalTime("since_ms"), until: r.optionalTime("until_ms"),
			lease: time.Duration(r.number("lease_ns", math.MaxInt64)), fence: r.number("fence", maxNumber-1),
		}
	}, lockTable.selectSQL()+"WHERE name = ?", singletonKey)
	return lock, err
}

func (l *txWriter) saveLock(ctx context.Context, k drillLock) error {
	_, err := l.writeRow(ctx, lockTable.upsertSQL(), singletonKey, k.run, cleanName(k.drill), ms(k.since), ms(k.until), int64(k.lease), k.fence)
	return err
}

// pointsPerChunk is how many points are in one row: at its largest, a row must fit into
// maxLength.
const pointsPerChunk = 600

// maxMillis bounds the times of points, so that sums of them fit.
const maxMillis = 1 << 40

const maxChunks = (drill.MaxPoints + pointsPerChunk - 1) / pointsPerChunk

// saveSeries writes the points that are new. Points are only ever added to a
// series, so that a chunk with as many as before is left alone.
func (l *txWriter) saveSeries(ctx context.Context, run string, points []drill.Point) error {
	points = points[:min(len(points), drill.MaxPoints)]
	there := map[int64]int64{}
	if _, err := query(ctx, l.tx, seriesTable.name, func(r *row) struct{} {
		there[r.number("chunk", maxNumber)] = r.number("points", maxNumber)
		return struct{}{}
	}, "SELECT chunk, points FROM drill_series WHERE run = ?", run); err != nil {
		return err
	}
	var n int64
	for ; len(points) > 0; n++ {
		chunk := points[:min(len(points), pointsPerChunk)]
		points = points[len(chunk):]
		if there[n] == int64(len(chunk)) {
			continue
		}
		if _, err := l.writeRow(ctx, seriesTable.upsertSQL(), run, n, int64(len(chunk)), packPoints(chunk)); err != nil {
			return err
		}
	}
	if int64(len(there)) <= n {
		return nil
	}
	_, err := l.exec(ctx, "DELETE FROM drill_series WHERE run = ? AND chunk >= ?", run, n)
	return err
}

// loadSeries reads the series of a run.
func loadSeries(ctx context.Context, q queryer, run string) (points []drill.Point, err error) {
	var want int64
	_, err = query(ctx, q, seriesTable.name, func(r *row) struct{} {
		if r.number("chunk", maxChunks) != want {
			r.fail("chunk")
		}
		want++
		chunk, ok := unpackPoints(r.raw("body"), int(r.number("points", pointsPerChunk)))
		if !ok {
			r.fail("body")
		}
		points = append(points, chunk...)
		return struct{}{}
	}, seriesTable.selectSQL()+"WHERE run = ? ORDER BY chunk LIMIT ?", run, maxChunks+1)
	if err != nil {
		return nil, err
	}
	return points[:min(len(points), drill.MaxPoints)], nil
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

// varintReader reads varints.
type varintReader struct {
	rest   []byte
	failed bool
}

func (u *varintReader) varint() int64 {
	v, n := binary.Varint(u.rest)
	if n <= 0 || v < -2*maxMillis || v > 2*maxMillis {
		u.failed, u.rest = true, nil
		return 0
	}
	u.rest = u.rest[n:]
	return v
}

func (u *varintReader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(u.rest)
	if n <= 0 || v > most {
		u.failed, u.rest = true, nil
		return 0
	}
	u.rest = u.rest[n:]
	return v
}
