// Package guard tests the automatic rollback on the whole program: a gate with a
// fault is taken out within seconds, and a sound one never is, whatever the load.
//
// The faults are built in by package sabotage, all three into one program; the
// variable FAULT says which of them is at work. They are in the policy's Admit,
// so that pass-through cures them, as it does faults of that kind.
package guard
