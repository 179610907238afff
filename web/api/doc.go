// Package api is what people, probes and scrapers see on the admin listener: the
// open endpoints /metrics, /healthz, /readyz and /runbooks, the admin API below
// /api/v1 with its client, and the door to both it and the pages, to which it hands
// the rest on. It shares nothing with the data plane but the gates'
// snapshots, so that a saturated data plane leaves it as quick as ever.
//
// # Words
//
//   - An answer is a reply of the admin API, an error of it included. Everything
//     else is silence: no connection, no reply in time, a reply of something
//     else, a 5xx. After silence a caller may try another way.
//   - An attempt is a request with a wrong token, or a write that a page of
//     another site made a browser send. Attempts are limited.
//   - The door lets people in: by the token, by a session, or, to read only,
//     everybody. Accepted and rejected logins are recorded in the audit.
//   - A problem is an error in the shape of RFC 9457.
//   - What is planned is what a dry run says would be done.
//   - A mute is what the API and everybody else call a silence: of a rule, about
//     which nothing is sent. In this package the other word is taken.
//
// # Units
//
// Names that end in _s are durations in seconds, to the millisecond; _1m counts
// over the last minute. Times are UTC, RFC 3339, to the millisecond. A number
// that is not known is null, never zero and never NaN.
//
// # Sources
//
// RFC 9457 (Problem Details for HTTP APIs), RFC 6750 (bearer tokens).
package api
