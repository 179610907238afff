// Package guard tests the automatic rollback on the whole program: a gate with a fault is
// rolled back within seconds, and a gate without one never is, whatever the load.
//
// Package mutation builds all faults into one program, and an environment variable activates
// one. All but one are in the policy's Admit, and pass-through avoids them. It does not bring
// back lost permits.
package guard
