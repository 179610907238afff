// Package runner runs drills, one at a time: preflight, canary, baseline, faults under leases, clearing, recovery,
// verdict. A run that stops early clears its faults and reverts its steps too.
package runner
