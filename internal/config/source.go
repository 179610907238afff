package config

import "strings"

// position is a position in a file; the zero value is unknown.
type position struct{ line, col int }

// sourceMap remembers where the settings of a Config were written, and which of
// them were filled in and must not be shown. A nil source knows nothing.
type sourceMap struct {
	file       string
	positions  map[string]position
	references map[string]string // path to the reference it was filled in from
}

func newSourceMap(file string) *sourceMap {
	return &sourceMap{file: file, positions: map[string]position{}, references: map[string]string{}}
}

func (s *sourceMap) fileName() string {
	if s == nil {
		return ""
	}
	return s.file
}

// position returns the position of path, or of its nearest parent that has one.
func (s *sourceMap) position(path string) position {
	if s == nil {
		return position{}
	}
	for {
		if at, ok := s.positions[path]; ok || path == "" {
			return at
		}
		path = parent(path)
	}
}

// isSet reports whether path was written or filled in, or cannot be told.
func (s *sourceMap) isSet(path string) bool {
	if s == nil {
		return true
	}
	_, written := s.positions[path]
	return written || s.references[path] != ""
}

// reference names the reference that path was filled in from; empty for none.
func (s *sourceMap) reference(path string) string {
	if s == nil {
		return ""
	}
	return s.references[path]
}

// parent cuts the last step off: pools[0].name, pools[0], pools, "".
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// join adds a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// At returns err as a [Diagnostic] at the place where path was written, or at its
// nearest parent's when path was left to its default. It lets another room
// refuse a setting with a position. Without a file, only the path is known.
// A nil err gives nil.
func (c *Config) At(path string, err error) error {
	if err == nil {
		return nil
	}
	at := c.src.position(path)
	return Diagnostic{File: c.src.fileName(), Line: at.line, Col: at.col, Path: path, Message: err.Error(), cause: err}
}
