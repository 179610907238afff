// Package config reads the settings of headgate: it loads a YAML file, fills in
// defaults, and refuses everything that cannot be meant, with a position and
// with what would be right. It imports no other package of headgate; each package gets its part
// handed over by the wiring and may refuse it again through [Config.At].
//
// # Words
//
//   - path: where a setting lives, written pools[0].slo.turnaround. In tables
//     that hold for every element of a list the index is left out: pools[].mode.
//   - reference: ${NAME} for an environment variable, ${file:PATH} for the
//     content of a file (PATH relative to the configuration file, trailing line
//     ends removed). A dollar sign itself is written $$.
//   - problem: one refusal or warning, with file, line, column and path.
//
// # Units
//
// Durations are written with a unit ("25s", "1m30s", "30d"; a day is 24 h) and
// held as [time.Duration]. Sizes are written with a unit ("32MiB", "64kB") and
// held as [Bytes]. A number without a unit is refused in both cases.
//
// # How strict it is
//
// Unknown and repeated keys, wrong types, empty values, several documents,
// anchors, aliases, tags, text that is not UTF-8 and files above 1 MiB are
// refused. References are filled in after the YAML has been parsed and only into
// single values, so what a variable holds can never change the structure. What
// was filled in is never printed, and neither is a [Secret].
//
// All problems are reported at once, in the order of the file.
//
// The exported types carry the manual: their comments become the descriptions
// in docs/headgate.schema.json, their tags the limits that are checked.
// Sources: YAML 1.2.2 (Ben-Kiki, Evans, döt Net, 2021) for the
// syntax; JSON Schema draft 7 (Wright, Andrews, Hutton, 2018) for the schema, as
// the draft that editors understand; Levenshtein (1966) for suggestions.
package config
