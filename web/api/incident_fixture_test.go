package api_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"headgate/engine"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

// engineFixture is a rig whose headgate watches, with a real engine.
type engineFixture struct {
	*fixture
	engine    *engine.Engine
	signals   *apitest.Signals
	incidents *apitest.IncidentStore
}

// newEngineFixture starts an engine that evaluates at the given interval.
func newEngineFixture(t *testing.T, every time.Duration) *engineFixture {
	t.Helper()
	r := &engineFixture{fixture: newFixture(t), signals: apitest.NewSignals(), incidents: apitest.NewIncidentStore()}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.engine = apitest.StartEngine(t, every, r.signals, r.incidents, log)
	r.SetEngine(r.engine)
	r.serve(api.AdminConfig{Incidents: r.incidents})
	return r
}

// withEngine runs a test on a clock of its own.
func withEngine(t *testing.T, test func(t *testing.T, r *engineFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newEngineFixture(t, time.Second)
		synctest.Wait()
		test(t, r)
	})
}

// setValue puts a value on the board and lets it be evaluated and recorded.
func (r *engineFixture) setValue(rule, pool string, v float64) {
	r.signals.Set(rule, pool, v)
	time.Sleep(time.Second)
	synctest.Wait()
}

func (r *engineFixture) get(path string, v any) {
	r.Helper()
	r.reply(r.request(testRequest{method: http.MethodGet, path: path}), v)
}

func (r *engineFixture) post(path, body, actor string) *httptest.ResponseRecorder {
	r.Helper()
	return r.request(testRequest{method: http.MethodPost, path: path, body: body, header: http.Header{api.ActorHeader: {actor}}})
}

// openIncident makes trouble and returns its incident.
func (r *engineFixture) openIncident(rule, pool string, v float64) api.Incident {
	r.Helper()
	r.setValue(rule, pool, v)
	var list api.IncidentList
	r.get("/api/v1/incidents?open=true&rule="+rule+"&pool="+pool, &list)
	if len(list.Items) != 1 {
		r.Fatalf("open incidents of %s in %q: %+v", rule, pool, list.Items)
	}
	return list.Items[0]
}
