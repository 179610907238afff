// Package api serves the admin listener: the open endpoints /metrics, /healthz, /readyz and /runbooks, the admin API below
// /api/v1 and its client, and authentication for both the API and the pages, which receive all other paths. It shares
// nothing with the data plane but the gates' snapshots, so that it stays fast while the data plane is saturated.
//
// # Terms
//
//   - A reply is any response of the admin API, errors included. No connection, no response in time, a 5xx and a
//     response of another program are not: the client reports an UnreachableError, and its caller may use the database.
//   - An attempt is a request with a wrong token, or a write that a page of another site made a browser send. Attempts
//     are limited.
//   - Auth admits clients with the token or a session, and all clients for reads if that is configured. Accepted and
//     rejected logins are in the audit.
//   - A problem is an error in the form of RFC 9457.
//
// # Units
//
// Names that end in _s are durations in seconds, to the millisecond; _1m counts over the last minute. Times are UTC,
// RFC 3339, to the millisecond. A number that is not known is null, never zero and never NaN.
//
// # Sources
//
// RFC 9457 (Problem Details for HTTP APIs), RFC 6750 (bearer tokens).
package api
