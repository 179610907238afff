// Package runner runs drills, one at a time. A run goes through these phases:
//
//   - claim: the run is stored and takes the lock of drills;
//   - preflight: drills are not frozen, production is ready, the environment is built;
//   - brakes: a canary call is held by a fault and released, which shows that faults can be cleared;
//   - baseline: the load begins, and the steady state must hold;
//   - inject and hold: faults, bursts and steps at their times, then load without new ones;
//   - clear: all faults are cleared and confirmed to be gone, steps are reverted in reverse order;
//   - recover: until the steady state is back, or the limit has passed;
//   - verdict: package judge evaluates the evidence.
//
// Beside the phases, monitors renew the leases of faults, check production and the conditions of abort_if, and save the
// run. A run that stops early clears its faults and reverts its steps too. If the process is killed, the leases end the
// faults, and the next process closes the run as interrupted.
package runner
