package sqlite

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"

	"headgate/runbooks/drill"
)

// pointsPerChunk is how many points are in one row: at its largest, a row must fit into
// maxLength.
const pointsPerChunk = 600

// maxMillis bounds the times of points, so that sums of them fit.
const maxMillis = 1 << 40

var seriesTable = table{name: "drill_series", key: []string{"run", "chunk"}, columns: []string{"run", "chunk", "points", "body"}}

const (
	selectChunks = `SELECT chunk, points FROM drill_series WHERE run = ?`
	deleteChunks = `DELETE FROM drill_series WHERE run = ? AND chunk >= ?`
	selectSeries = `SELECT chunk, points, body FROM drill_series WHERE run = ? ORDER BY chunk LIMIT ?`
	maxChunks    = (drill.MaxPoints + pointsPerChunk - 1) / pointsPerChunk
)

// saveSeries writes the points that are new. Points are only ever added to a
// series, so that a chunk with as many as before is left alone.
func (l *txWriter) saveSeries(ctx context.Context, run string, points []drill.Point) error {
	points = points[:min(len(points), drill.MaxPoints)]
	there := map[int64]int64{}
	if _, err := query(ctx, l.tx, 2, func(v []any) (struct{}, error) {
		f := rowDecoder{table: seriesTable.name}
		there[f.number("chunk", v[0], maxNumber)] = f.number("points", v[1], maxNumber)
		return struct{}{}, f.err
	}, selectChunks, run); err != nil {
		return err
	}
	var n int64
	for ; len(points) > 0; n++ {
		chunk := points[:min(len(points), pointsPerChunk)]
		points = points[len(chunk):]
		if there[n] == int64(len(chunk)) {
			continue
		}
		if _, err := l.writeRow(ctx, seriesTable.upsertSQL(), []any{run, n, int64(len(chunk)), packPoints(chunk)}); err != nil {
			return err
		}
	}
	if int64(len(there)) <= n {
		return nil
	}
	_, err := l.exec(ctx, deleteChunks, run, n)
	return err
}

// loadSeries reads the series of a run.
func loadSeries(ctx context.Context, q queryer, run string) (points []drill.Point, err error) {
	var want int64
	_, err = query(ctx, q, 3, func(v []any) (struct{}, error) {
		f := rowDecoder{table: seriesTable.name}
		if f.number("chunk", v[0], maxChunks) != want || f.err != nil {
			f.fail("chunk")
		}
		want++
		n, body := f.number("points", v[1], pointsPerChunk), f.raw("body", v[2])
		chunk, ok := unpackPoints(body, int(n))
		if !ok {
			f.fail("body")
		}
		points = append(points, chunk...)
		return struct{}{}, f.err
	}, selectSeries, run, maxChunks+1)
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
