// Package strictyaml reads the one YAML document of an untrusted file: every setting at most once and no others,
// without aliases, anchors, tags and merge keys, within fixed bounds. It continues after a problem, so that one reading
// reports all of them, each with its place and with what would be right. Settings, rules and drills are read with it.
//
// A Decoder collects the problems of one file and knows where its settings are. A path names a setting:
// rules[0].warn.at. A Reader takes a node and its path and stores what the node says.
//
// Messages never repeat what was filled in from ${NAME} or ${file:PATH}, nor a key that may be a value.
package strictyaml
