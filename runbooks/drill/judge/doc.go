// Package judge turns the evidence of a run into measures, hypotheses and a verdict. It is pure: it reads no clock and
// calls nothing.
//
// # How a verdict comes about
//
//   - Facts are all that is known of a run: its evidence, its steps, how clearing faults went, and whether the steady
//     state returned. NewEvaluation indexes them, and sets the tolerance of comparisons of times by the speed of the
//     run and by how late the generator sent its tasks.
//   - A measure is read from the evidence, once; the table measures has a function for each. A hypothesis compares a
//     measure with the limit of an expectation.
//   - The table checks has what every drill is judged by, each with its tier. A tier says what a violation means.
//   - Judge collects violations and failed hypotheses, and returns the most serious verdict: Failed for a broken
//     invariant; Inconclusive if a precondition does not hold, or if only times were exceeded on a machine that
//     stalled; Failed for the rest; Inconclusive if a measure is not known; otherwise Passed.
//
// While a run is in progress, ViolationsSoFar serves the reason of an early stop, UnsteadyBaseline and UnsteadyAfter
// the phases baseline and recover, and Series the charts.
//
// # What counts as observed
//
// The generator, the endpoint and the receiver of messages are outside the gate. A wait as seen from outside is never
// shorter than as the gate sees it: it includes the time of the connection. Therefore a refusal that is not due from
// outside is not due inside either, but an admission that seems late from outside needs the tolerance.
package judge
