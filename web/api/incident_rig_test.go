package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

// watchRig is a rig whose headgate watches, with a real engine.
type watchRig struct {
	*rig
	engine *engine.Engine
	board  *apitest.Board
	shelf  *apitest.Shelf
}

// watching starts an engine that evaluates at the given interval.
func watching(t *testing.T, every time.Duration) *watchRig {
	t.Helper()
	r := &watchRig{rig: newRig(t), board: apitest.NewBoard(), shelf: apitest.NewShelf()}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.engine = apitest.Engine(t, every, r.board, r.shelf, log)
	admin, err := api.NewAdmin(api.AdminConfig{
		Token: token, Orders: r.controller, Statuses: r, Audit: r.record, Incidents: r.shelf, Watch: r.engine, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.handler = api.Handler(api.Ops{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }}, admin)
	return r
}

// watched runs a test on a clock of its own.
func watched(t *testing.T, test func(t *testing.T, r *watchRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := watching(t, time.Second)
		synctest.Wait()
		test(t, r)
	})
}

// step puts a value on the board and lets it be evaluated and recorded.
func (r *watchRig) step(rule, pool string, v float64) {
	r.board.Put(rule, pool, v)
	time.Sleep(time.Second)
	synctest.Wait()
}

func (r *watchRig) get(path string, v any) {
	r.Helper()
	r.reply(r.do(call{method: http.MethodGet, path: path}), v)
}

func (r *watchRig) post(path, body, actor string) *httptest.ResponseRecorder {
	r.Helper()
	return r.do(call{method: http.MethodPost, path: path, body: body, header: http.Header{api.ActorHeader: {actor}}})
}

// open makes trouble and returns its incident.
func (r *watchRig) open(rule, pool string, v float64) api.Incident {
	r.Helper()
	r.step(rule, pool, v)
	var list api.IncidentList
	r.get("/api/v1/incidents?open=true&rule="+rule+"&pool="+pool, &list)
	if len(list.Items) != 1 {
		r.Fatalf("open incidents of %s in %q: %+v", rule, pool, list.Items)
	}
	return list.Items[0]
}

// none has no pools.
type none struct{}

func (none) Do(context.Context, time.Time, control.Order) (control.Result, error) {
	return control.Result{}, control.ErrNoPool
}

func (none) Status(time.Time) api.Status { return api.Status{} }
