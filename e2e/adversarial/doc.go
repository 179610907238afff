// Package adversarial attacks the admin listener of a real gate: guessed tokens, foreign host
// names, cross-site requests, bodies and headers that never end, and more connections than
// needed. All of it is refused at a bounded cost, and the data plane goes on.
package adversarial
