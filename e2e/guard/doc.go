// Package guard tests the automatic rollback on the whole program: a gate with a
// fault is taken out within seconds, and a sound one never is, whatever the load.
//
// The faults are built in by package sabotage, all into one program; the variable
// FAULT says which of them is at work. All but one are in the policy's Admit, and
// pass-through cures them. Lost permits it does not bring back.
package guard
