// Package proxy is the data plane: OpenAI-compatible requests come in, are
// offered to the gate of their pool, wait for a permit, go upstream, and their
// answers go back as they come.
//
// # The way of one task
//
// A task is one POST to a listed endpoint. Its body is read first, within a
// limit and a budget, because Go notices that a client has gone only once the
// body has been read, and because the model named in it decides the pool. Then
// the gate is asked. A refusal is a 429 with Retry-After, never a 5xx: clients
// treat those as faults and hammer. An admitted task holds a permit from its
// grant until the last byte has gone to the client; the permit comes back in a
// defer, whatever happens in between, http.ErrAbortHandler included. Every task
// yields exactly one Observation, in the same defer.
//
// # What is never changed
//
// Status, headers other than hop-by-hop ones, trailers and every byte of the
// upstream's answer. The proxy only watches the bytes go by, to learn whether
// an answer reached its proper end: an SSE stream its terminal event, a JSON
// body its closing brace. One that did not is broken off towards the client
// too, since several SDKs take a clean end of a cut stream for success.
//
// # Units
//
// Durations are time.Duration, sizes are bytes. All exported types are safe for
// concurrent use unless they say otherwise.
package proxy
