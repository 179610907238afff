// Package hostile attacks the admin listener of a real gate: guessed tokens,
// foreign names, pages of other sites, bodies and headers that never end, and more
// connections than anybody needs. All of it is refused at a bounded cost, and the
// data plane goes on.
package adversarial
