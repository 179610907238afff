// Package acceptance repeats tests of e2e/rollback, e2e/watch and e2e/drills often enough that
// chance has little influence: hundreds of SIGKILLs during mode changes, hundreds of rollbacks
// under load, every fault of the program, every built-in drill, and ten crashes in every phase.
// Its tests have the build tag proof and are run by `make proof`.
package acceptance
