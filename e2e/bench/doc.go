// Package bench holds benchmarks that put headgate beside other people's work.
//
// Numbers of two machines, or of two runs, say little. Each benchmark here runs
// both sides in turn within one run and reports the ratio. Of a cost,
// ours/theirs below 1 means that ours is cheaper; of a throughput, above 1 means
// that ours does more.
//
// BenchmarkGate is about one decision. BenchmarkProxy and BenchmarkMemory are
// about the whole program, started as it is shipped: one client and one stub,
// which do next to nothing, and between them headgate, httputil.ReverseProxy or
// HAProxy, each a process of its own. BenchmarkInside is for profiles.
package bench
