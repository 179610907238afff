// Package drills breaks the program and lets drills find out, and kills it while a
// drill runs. What is here is a part of it that CI has time for; `make proof` does
// all.
package drills
