// Package rig carries out drills on real programs, whole ones and ones with a broken
// part, for the tests of this module.
//
// A [Fault] is a part that is broken, with the drill that has to find it and the
// words by which its verdict names the part. All faults are in one program, which
// [Program] builds; a variable of the environment says which is at work, and it is at
// work in what the drill builds as well as in production beside it.
package rig
