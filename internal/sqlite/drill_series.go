package sqlite

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"

	"headgate/runbooks/drill"
)

// perChunk is how many points are in one row: at its largest, a row must fit into
// maxLength.
const perChunk = 600

// maxMillis bounds the times of points, so that sums of them fit.
const maxMillis = 1 << 40

var seriesTable = table{name: "drill_series", key: []string{"run", "chunk"}, columns: []string{"run", "chunk", "points", "body"}}

const (
	readChunks = `SELECT chunk, points FROM drill_series WHERE run = ?`
	dropChunks = `DELETE FROM drill_series WHERE run = ? AND chunk >= ?`
	readSeries = `SELECT chunk, points, body FROM drill_series WHERE run = ? ORDER BY chunk LIMIT ?`
	maxChunks  = (drill.MaxPoints + perChunk - 1) / perChunk
)

// saveSeries writes the points that are new. Points are only ever added to a
// series, so that a chunk with as many as before is left alone.
func (l *ledger) saveSeries(ctx context.Context, run string, points []drill.Point) error {
	points = points[:min(len(points), drill.MaxPoints)]
	there := map[int64]int64{}
	if _, err := query(ctx, l.tx, 2, func(v []any) (struct{}, error) {
		f := fields{table: seriesTable.name}
		there[f.number("chunk", v[0], maxNumber)] = f.number("points", v[1], maxNumber)
		return struct{}{}, f.bad
	}, readChunks, run); err != nil {
		return err
	}
	var n int64
	for ; len(points) > 0; n++ {
		chunk := points[:min(len(points), perChunk)]
		points = points[len(chunk):]
		if there[n] == int64(len(chunk)) {
			continue
		}
		if _, err := l.write(ctx, seriesTable.put(), []any{run, n, int64(len(chunk)), packPoints(chunk)}); err != nil {
			return err
		}
	}
	if int64(len(there)) <= n {
		return nil
	}
	_, err := l.exec(ctx, dropChunks, run, n)
	return err
}

// seriesOf reads the series of a run.
func seriesOf(ctx context.Context, q queryer, run string) (points []drill.Point, err error) {
	var want int64
	_, err = query(ctx, q, 3, func(v []any) (struct{}, error) {
		f := fields{table: seriesTable.name}
		if f.number("chunk", v[0], maxChunks) != want || f.bad != nil {
			f.fail("chunk")
		}
		want++
		n, body := f.number("points", v[1], perChunk), f.raw("body", v[2])
		chunk, ok := unpackPoints(body, int(n))
		if !ok {
			f.fail("body")
		}
		points = append(points, chunk...)
		return struct{}{}, f.bad
	}, readSeries, run, maxChunks+1)
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
		at := millis(p.At)
		out = binary.AppendVarint(out, at-before)
		before = at
		late := uint64(0) // nothing ended
		if p.Turnaround >= 0 {
			late = uint64(millis(p.Turnaround)) + 1
		}
		out = binary.AppendUvarint(out, late)
		out = binary.AppendUvarint(out, uint64(max(millis(p.QueueAge), 0)))
		for _, n := range []int{p.Depth, p.InFlight, p.Arrived, p.Served, p.Refused, p.Errors} {
			out = binary.AppendUvarint(out, uint64(count(n)))
		}
	}
	return base64.RawStdEncoding.EncodeToString(out)
}

// millis makes seconds milliseconds.
func millis(s float64) int64 {
	return int64(math.Round(min(max(finite(s)*1000, -maxMillis), maxMillis)))
}

// unpackPoints reads n points that packPoints has written, and nothing else.
func unpackPoints(body string, n int) ([]drill.Point, bool) {
	raw, err := base64.RawStdEncoding.Strict().DecodeString(body)
	if err != nil {
		return nil, false
	}
	r := unpacker{rest: raw}
	points := make([]drill.Point, 0, n)
	var at int64
	for range n {
		at += r.signed()
		late, age := r.number(maxMillis+1), r.number(maxMillis)
		p := drill.Point{At: float64(at) / 1000, Turnaround: -1, QueueAge: float64(age) / 1000}
		if late > 0 {
			p.Turnaround = float64(late-1) / 1000
		}
		for _, into := range []*int{&p.Depth, &p.InFlight, &p.Arrived, &p.Served, &p.Refused, &p.Errors} {
			*into = int(r.number(math.MaxInt32))
		}
		points = append(points, p)
		if r.bad || at < -maxMillis || at > maxMillis {
			return nil, false
		}
	}
	return points, len(r.rest) == 0
}

// unpacker reads varints.
type unpacker struct {
	rest []byte
	bad  bool
}

func (u *unpacker) signed() int64 {
	v, n := binary.Varint(u.rest)
	if n <= 0 || v < -2*maxMillis || v > 2*maxMillis {
		u.bad, u.rest = true, nil
		return 0
	}
	u.rest = u.rest[n:]
	return v
}

func (u *unpacker) number(most uint64) uint64 {
	v, n := binary.Uvarint(u.rest)
	if n <= 0 || v > most {
		u.bad, u.rest = true, nil
		return 0
	}
	u.rest = u.rest[n:]
	return v
}
