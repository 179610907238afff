package bench

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/proxy"
	"headgate/proxy/admission"
)

// BenchmarkInside runs the data plane inside this process, and stub and client
// outside, so that a profile shows the data plane alone:
//
//	go test -run '^$' -bench Inside/json -cpuprofile cpu.out ./bench
func BenchmarkInside(b *testing.B) {
	for _, answer := range []string{answerJSON, answerStream} {
		b.Run(answer, func(b *testing.B) { inside(b, answer) })
	}
}

func inside(b *testing.B, answer string) {
	addr := startInside(b)
	requests := 0.0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	spent := cpuTime(os.Getpid())
	for b.Loop() {
		done, err := strconv.ParseFloat(startRole(b, roleLoad, addr, answer).line, 64)
		if err != nil {
			b.Fatal(err)
		}
		requests += done
	}
	spent = cpuTime(os.Getpid()) - spent
	runtime.ReadMemStats(&after)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(spent.Microseconds())/requests, "CPU-µs/request")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/requests, "allocs/request")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/requests, "B/request")
}

// startInside starts a proxy in this process and returns its address.
func startInside(t testing.TB) string {
	t.Helper()
	gate, err := admission.New(admission.Config{Workers: manyWorkers, Policy: admission.None{}, QueueLimit: 1, AssumedService: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := proxy.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	const slo = time.Minute
	if err := metrics.AddPool("default", slo, gate); err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(proxy.Config{
		Observer: metrics, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Pools: []proxy.Pool{{
			Name: "default", Models: []string{"*"}, Gate: gate, SLO: slo,
			Upstream:    &url.URL{Scheme: "http", Host: startRole(t, roleStub).line, Path: "/v1"},
			Connections: proxy.Connections{Idle: 4 * time.Second}, ConnectTimeout: time.Minute,
			IdleTimeout: time.Minute, BodyLimit: 1 << 20, BufferLimit: 1 << 30,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with the cleanup below
	t.Cleanup(func() {
		_ = server.Close()
		p.Close()
	})
	return l.Addr().String()
}
