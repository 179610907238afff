package tsdb

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQueryRangeReturnsPoints(t *testing.T) {
	r := newFixture(t, nil)
	for n := range 5 {
		v := float64(n)
		if n == 2 {
			v = math.NaN()
		}
		r.appendSecond(sample(v, "headgate_x", "pool", "p"))
	}
	got, err := r.QueryRange(t.Context(), "headgate_x * 2", epoch, epoch.Add(4*time.Second), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []Series{{Labels: map[string]string{"pool": "p"}, Points: []Point{
		{epoch, 0}, {epoch.Add(time.Second), 2}, {epoch.Add(3 * time.Second), 6}, {epoch.Add(4 * time.Second), 8},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestQueryRangeIsBounded(t *testing.T) {
	r := newFixture(t, nil)
	var many []Sample
	for n := range rangeSeries + 1 {
		many = append(many, sample(1, "headgate_many", "n", fmt.Sprint(n)))
	}
	r.appendSecond(many...)
	end := epoch.Add(time.Minute)
	for name, ask := range map[string]func() ([]Series, error){
		"no step":         func() ([]Series, error) { return r.QueryRange(t.Context(), "1", epoch, end, 0) },
		"backwards":       func() ([]Series, error) { return r.QueryRange(t.Context(), "1", end, epoch, time.Second) },
		"too many points": func() ([]Series, error) { return r.QueryRange(t.Context(), "1", epoch, end, time.Millisecond) },
		"too many series": func() ([]Series, error) { return r.QueryRange(t.Context(), "headgate_many", epoch, end, time.Second) },
		"not PromQL":      func() ([]Series, error) { return r.QueryRange(t.Context(), "(", epoch, end, time.Second) },
		"too long": func() ([]Series, error) {
			return r.QueryRange(t.Context(), strings.Repeat("1+", maxExpr)+"1", epoch, end, time.Second)
		},
	} {
		if got, err := ask(); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.QueryRange(t.Context(), "1", epoch, end, time.Second); err == nil || errors.Is(err, ErrQuery) {
		t.Errorf("samples that are closed: %v", err)
	}
}
