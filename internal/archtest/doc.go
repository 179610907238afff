// Package archtest has only tests. They check the architecture: they read the table of packages in docs/ARCHITECTURE.md
// and compare the module's source with it.
//
// Every .go file of the module is read, whatever its build constraints, by syntax alone: nothing is compiled, so a
// violation is found even where the code does not build on this system. Folders named testdata, node_modules or vendor,
// folders that start with a dot or an underscore, and nested modules are left out.
//
// # Rules
//
// From the table: an import must be allowed by its package's row; every package has a row, and every row a package (or
// the state "later"); a row must name packages that exist; a package whose row says never `time.Now` reads no clock and
// gets the time from its caller.
//
// For the whole module: no func init; no global logger outside tests; a doc.go with a package comment in every package;
// a doc comment on every export; no package named util, common, types, helpers or the like.
//
// Test files may import what their package may, the package itself, and the packages of the row *_test.go. What a row
// says about packages that are not ours and about the clock binds only the package's own code, not its tests.
package archtest
