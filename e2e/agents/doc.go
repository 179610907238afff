// Package agents lets coding agents do one task each through the gate, alone and
// while others send three times what the endpoint can take, and prints how many
// requests a task cost. The agents come from npm, about 1 GB, so the tests have
// the build tag agents and are run by `make agents`.
//
// The stand-in endpoint answers with made-up text: what counts is how the agents
// take a refusal, not what they write.
package agents
