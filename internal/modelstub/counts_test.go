package modelstub

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func (s *testServer) counts() (c Stats) {
	s.t.Helper()
	r := s.do(http.MethodGet, pathCounts, "", nil)
	if r.err != nil || r.status != http.StatusOK || r.header.Get("Content-Type") != "application/json" {
		s.t.Fatalf("counts: %d, %v", r.status, r.err)
	}
	d := json.NewDecoder(strings.NewReader(r.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func TestCountsCanBeAskedFor(t *testing.T) {
	s := newTestServer(t, Config{Slots: 1})
	s.ok(pathChat, helloRequest)
	s.post(pathChat, `{`)
	s.post(pathChat, helloRequest, HeaderFault, "status=500")
	ctx, leave := contextWithCancel(t)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := s.client.Do(s.request(ctx, http.MethodPost, pathChat, helloRequest, headers(HeaderFault, "hang"))); err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, "one hangs", func() bool { return s.counts().Serving == 1 })
	got := s.counts()
	if got.Calls != 4 || got.Completed != 1 || got.Rejected != 1 || got.Faulted != 1 || got.InFlight != 1 || got.PeakInFlight != 1 {
		t.Errorf("while one hangs: %+v", got)
	}
	leave()
	<-gone
	eventually(t, "it is seen to have gone", func() bool { return s.counts().ClientGone == 1 })
	if got = s.counts(); !reflect.DeepEqual(got, s.Stats()) || got.InFlight != 0 || got.ByPath[pathChat].Calls != 4 {
		t.Errorf("afterwards: %+v, want %+v", got, s.Stats())
	}
}

func TestCountsRequestIsNotCounted(t *testing.T) {
	s := newTestServer(t, Config{})
	if err := s.SetFault(Fault{Kind: KindHang, Share: 1}); err != nil {
		t.Fatal(err)
	}
	if got := s.counts(); got.Calls != 0 || len(got.ByPath) != 0 {
		t.Errorf("counted itself: %+v", got)
	}
	s.ClearFault()
	if r := s.post(pathCounts, `{}`); r.status != http.StatusNotFound {
		t.Errorf("POST: %d", r.status)
	}
}
