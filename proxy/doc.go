// Package proxy is the data plane: an OpenAI-compatible request is offered to the
// gate of its pool, waits for a permit, goes upstream, and its answer is relayed
// as it arrives.
//
// # The path of one task
//
// A task is one POST to a listed endpoint. Its body is read first, within a limit
// and a budget, because Go detects that a client has left only once the body has
// been read, and because the model named in it decides the pool. Then the task is
// offered to the gate. A refusal is a 429 with Retry-After, never a 5xx: clients
// treat those as faults and retry at once. An admitted task holds a permit from its
// grant until the last byte has been sent to the client; the permit is released in
// a defer, whatever happens in between, http.ErrAbortHandler included. Every task
// yields exactly one Observation, in the same defer.
//
// # What is never changed
//
// Status, headers other than hop-by-hop ones, trailers and every byte of the
// upstream's answer. The proxy only inspects the bytes, to detect whether an
// answer reached its proper end: a stream the terminal event of its protocol, a JSON
// body its closing brace. An answer that did not is aborted towards the client too,
// since several SDKs take a clean end of a truncated stream for success. Once the end
// has gone out the answer is complete, whichever side closes first.
//
// An error inside a stream ends nothing by itself: if the upstream goes on, so does
// the answer. Whatever the proxy cuts, for silence or for sending on after the end, it
// aborts.
//
// # Units
//
// Durations are time.Duration, sizes are bytes. All exported types are safe for
// concurrent use unless they say otherwise.
package proxy
