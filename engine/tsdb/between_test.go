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

func TestBetweenReturnsPoints(t *testing.T) {
	r := newRig(t, nil)
	for n := range 5 {
		v := float64(n)
		if n == 2 {
			v = math.NaN()
		}
		r.second(at(v, "headgate_x", "pool", "p"))
	}
	got, err := r.Between(t.Context(), "headgate_x * 2", epoch, epoch.Add(4*time.Second), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{Labels: map[string]string{"pool": "p"}, Points: []Point{
		{epoch, 0}, {epoch.Add(time.Second), 2}, {epoch.Add(3 * time.Second), 6}, {epoch.Add(4 * time.Second), 8},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestBetweenIsBounded(t *testing.T) {
	r := newRig(t, nil)
	var many []Sample
	for n := range rangeSeries + 1 {
		many = append(many, at(1, "headgate_many", "n", fmt.Sprint(n)))
	}
	r.second(many...)
	end := epoch.Add(time.Minute)
	for name, ask := range map[string]func() ([]Line, error){
		"no step":         func() ([]Line, error) { return r.Between(t.Context(), "1", epoch, end, 0) },
		"backwards":       func() ([]Line, error) { return r.Between(t.Context(), "1", end, epoch, time.Second) },
		"too many points": func() ([]Line, error) { return r.Between(t.Context(), "1", epoch, end, time.Millisecond) },
		"too many series": func() ([]Line, error) { return r.Between(t.Context(), "headgate_many", epoch, end, time.Second) },
		"not PromQL":      func() ([]Line, error) { return r.Between(t.Context(), "(", epoch, end, time.Second) },
		"too long": func() ([]Line, error) {
			return r.Between(t.Context(), strings.Repeat("1+", maxExpr)+"1", epoch, end, time.Second)
		},
	} {
		if got, err := ask(); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Between(t.Context(), "1", epoch, end, time.Second); err == nil || errors.Is(err, ErrQuery) {
		t.Errorf("samples that are closed: %v", err)
	}
}
