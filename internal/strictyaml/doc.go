// Package strictyaml reads the one YAML document of a hostile file: every setting
// at most once and no others, without aliases, anchors and tags. It goes on after
// a problem, so that one reading tells all of them, each with its place.
//
// # Words
//
//   - A ledger collects the problems of one file, and knows where its settings are.
//   - A path names a setting: rules[0].warn.at.
//   - A reader takes a node and its path, and puts what it says where it was told.
package strictyaml
