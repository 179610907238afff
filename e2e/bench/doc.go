// Package bench compares headgate with other software.
//
// Numbers of different machines or runs are not comparable. Each benchmark runs both sides in
// turn within one run and reports the ratio. For a cost, ours/theirs below 1 means that ours is
// cheaper; for a throughput, above 1 means that ours is higher.
//
// BenchmarkGate measures one decision. BenchmarkProxy and BenchmarkMemory measure the whole
// program: a minimal client and stub, and between them headgate, httputil.ReverseProxy or HAProxy,
// each in its own process. BenchmarkInside is for profiles.
package bench
