// Package web is what people, probes and scrapers see: for now the open
// endpoints of the admin listener, /metrics, /healthz and /readyz. They share
// nothing with the data plane but the gates' snapshots, so that a saturated
// data plane leaves them as quick as ever.
package web
