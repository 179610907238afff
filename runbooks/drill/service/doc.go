// Package service is what the rest of the program sees of drills: their states, plans, runs by hand and by schedule,
// the freeze, the check that production may be left to a drill, and metrics.
package service
