// Package modelstub is an OpenAI-compatible stand-in endpoint: it speaks the wire
// format of a model server, takes a chosen time for every answer and fails on
// request. Tests, the demo and drills use it in place of a model, and rely on its
// counts rather than on those of the system under test. It shares no code with the
// proxy, on purpose: a mistake in one is found by the other.
//
// # Words
//
//   - call: one HTTP request, from its headers to the last byte handed over
//     for writing. A call that the client has abandoned lasts until the stub
//     notices, which is as soon as the connection closes.
//   - slot: the right to be worked on. With Slots set, further calls wait inside the
//     stub first come first served, as in a real server's own queue.
//   - service time: from the slot to the last byte. A [Service] draws it, split
//     into the time to the first byte and the rest; the chunks of a streamed
//     answer are spread evenly over the rest.
//   - fault: a failure that a call asks for with [HeaderFault].
//   - edge-case stream: a server-sent event body that is legal and unusual.
//
// # Units
//
// Durations are scenario time: [Config].Speed divides every one of them when
// the stub waits. A prompt token is four bytes of prompt text; an output token
// is one word.
//
// # What repeats and what does not
//
// The bytes of an answer (identifiers, created, text, tool arguments) follow
// from the seed, the path and the decoded request body alone, so an answer
// through a proxy can be compared with a direct one. Service times follow from the
// seed and the call's number, so equal prompts do not all take equally long.
//
// # Control headers
//
// A request may carry Stub-Fault, Stub-Service, Stub-Chunks, Stub-Stream,
// Stub-Encoding and Stub-Trailer; see the Header constants.
//
// # Counts
//
// [Stub.Stats] has the counts of a stub, GET /counts the same in JSON.
//
// # Sources
//
// The shapes follow OpenAI's public API reference for chat completions,
// completions, responses and embeddings, and the WHATWG HTML standard, section
// "Server-sent events". The token model (a constant, plus prefill, plus
// decode) is the usual first approximation of an inference server, as in
// Patel et al., "Splitwise", ISCA 2024.
package modelstub
