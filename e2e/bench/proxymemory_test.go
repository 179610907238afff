package bench

import (
	"bufio"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"headgate/e2e/harness"
)

// memoryUse is the memory of a number of requests, in bytes.
type memoryUse struct {
	n           int
	heap, stack float64 // live heap after garbage collections, and stacks, as Go reports them
}

func (h memoryUse) each() float64 { return (h.heap + h.stack) / float64(h.n) }

// BenchmarkMemory measures the memory of a queued request and of an open stream in headgate.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{"", "KB each", "heap KB", "stack KB"}}
		for what, m := range memory(b, benchmarkEffort()) {
			n := float64(m.n) * 1000
			rows = append(rows, []string{
				fmt.Sprintf("%d %s", m.n, what),
				fmt.Sprintf("%.1f", m.each()/1000), fmt.Sprintf("%.1f", m.heap/n), fmt.Sprintf("%.1f", m.stack/n),
			})
			b.ReportMetric(m.each()/1000, what+":KB-each")
		}
		logTable("Memory of a request of 4 KB", rows)
	}
	b.ReportMetric(0, "ns/op")
}

func memory(t testing.TB, e effort) map[string]memoryUse {
	return map[string]memoryUse{
		"waiting": measureMemory(t, e.waiting, answerHold, 1, func(m harness.Metrics) float64 { return m.Sum("headgate_queue_depth") }),
		"streams": measureMemory(t, e.streaming, answerOpen, manyWorkers, func(m harness.Metrics) float64 { return m.Sum("headgate_in_flight") }),
	}
}

// measureMemory holds n requests and returns their memory. Collections are frequent (GOGC=5), and
// every value is read after some of them.
func measureMemory(t testing.TB, n int, answer string, workers int, count func(harness.Metrics) float64) memoryUse {
	t.Helper()
	stub := startRole(t, roleStub)
	s := startHeadgate(t, stub.line, workers, "GOGC=5")
	if l := generateLoad(s.addr, 4, answerJSON, short.load); l.err != nil {
		t.Fatal(l.err)
	}
	before := scrapeAfterGC(t, s.gate)
	sent := n
	if answer == answerHold {
		sent += workers // are in flight, not queued
	}
	conns := openRequests(t, s.addr, answer, sent)
	harness.Eventually(t, "all requests are in the gate", func() bool { return count(s.gate.Scrape(t)) == float64(n) })
	after := scrapeAfterGC(t, s.gate)
	for _, c := range conns {
		_ = c.Close()
	}
	harness.Eventually(t, "no request is in the gate", func() bool { return count(s.gate.Scrape(t)) == 0 })
	const heap, stack = "go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes"
	return memoryUse{n: n, heap: after.Sum(heap) - before.Sum(heap), stack: after.Sum(stack) - before.Sum(stack)}
}

// scrapeAfterGC scrapes until the collector has run a few times: scrapes produce enough garbage.
func scrapeAfterGC(t testing.TB, g *harness.Gate) harness.Metrics {
	t.Helper()
	const cycles = "go_gc_duration_seconds"
	m := g.Scrape(t)
	first := gcs(m, cycles)
	harness.Eventually(t, "garbage is collected", func() bool {
		m = g.Scrape(t)
		return gcs(m, cycles) >= first+4
	})
	return m
}

func gcs(m harness.Metrics, name string) uint64 {
	return m[name].GetMetric()[0].GetSummary().GetSampleCount()
}

// openRequests sends n requests, each on its own connection, and waits for the start of the
// answers, if there are any.
func openRequests(t testing.TB, addr, answer string, n int) []*conn {
	t.Helper()
	text := request(answer)
	conns := make([]*conn, n)
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if conns[i], errs[i] = dial(addr); errs[i] != nil {
				return
			}
			if _, errs[i] = conns[i].Write(text); errs[i] == nil && answer == answerOpen {
				errs[i] = readHead(conns[i].in)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return conns
}

func readHead(in *bufio.Reader) error {
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	_, err = res.Body.Read(make([]byte, 1))
	return err
}
