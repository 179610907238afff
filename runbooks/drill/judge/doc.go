// Package judge turns the evidence of a run into measures, hypotheses and a verdict. It is pure: it reads no clock and
// calls nothing.
package judge
