// Package drill has the types of drills: a scenario under injected faults, hypotheses
// about what headgate will do, and a verdict with its evidence.
//
// # Words
//
//   - A spec says what a drill is. It has an ID that stays when it is renamed, and
//     is frozen with every run of it.
//   - A scenario is the load, the service and the faults of a run, in scenario
//     seconds.
//   - A run is one execution of a spec. It has a status, and a verdict when it has
//     ended.
//   - An occurrence is one due time of a schedule. There is at most one run for it.
//   - A target is what the drill acts on: a twin, which shares nothing with
//     production, or live, the production upstream path of a few tasks.
//   - A measure is something that the generator, the endpoint or the receiver of the
//     messages observed. A hypothesis sets a limit to one. None relies on what the gate
//     reports about itself.
//   - A margin is how far a value stayed from its limit, as a share of the limit:
//     above 0 it held, below 0 it did not.
//   - A brake stops a run early.
//
// # Units
//
// Times of a scenario are scenario time; Run.Speed says how many scenario seconds
// pass in one of the wall clock. Times of day are UTC, to the millisecond.
//
// # Sources
//
// Basiri et al., "Chaos Engineering", IEEE Software 33(3), 2016, for steady state,
// hypotheses and blast radius.
package drill
