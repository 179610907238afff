// Package archtest keeps the house as drawn: it reads the table of rooms in
// docs/ARCHITECTURE.md and compares the module's source with it.
//
// # Words
//
//   - room: one Go package, named by its folder below the module's root.
//   - row: one line of the table: a room, whether it exists now or later, what
//     of ours it may import, and what it must never touch.
//   - arrow: one direct import from a room to another package.
//   - breach: one place where the source and the drawing differ.
//
// # What is read
//
// Every .go file of the module, whatever its build constraints, by syntax alone:
// nothing is compiled, so a breach is found even where the code does not build
// on this system. Folders named testdata, node_modules or vendor, folders that
// start with a dot or an underscore, and nested modules are left out.
//
// # Rules
//
// From the table: an arrow must be allowed by its room's row; every room has a
// row and every row has a room (or says "later"); a row that names nonsense is a
// breach itself; a room whose row says never `time.Now` reads no clock at all
// and gets the time from its caller.
//
// For the whole house: no func init; no global logger outside tests; a doc.go
// with a package comment in every room; a doc comment on every export; no
// package named util, common, types, helpers or the like.
//
// Test files may import what their room may, the room itself, and the rooms that
// the row named *_test.go adds. What a row says about packages that are not ours
// and about the clock binds only the room's own code, not its tests.
package archtest
