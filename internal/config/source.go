package config

import "strings"

// place is a position in a file; the zero value is unknown.
type place struct{ line, col int }

// source remembers where the settings of a Config were written, and which of
// them were filled in and must not be shown. A nil source knows nothing.
type source struct {
	file   string
	places map[string]place
	filled map[string]string // path to the reference it was filled in from
}

func newSource(file string) *source {
	return &source{file: file, places: map[string]place{}, filled: map[string]string{}}
}

func (s *source) name() string {
	if s == nil {
		return ""
	}
	return s.file
}

// place returns the position of path, or of its nearest parent that has one.
func (s *source) place(path string) place {
	if s == nil {
		return place{}
	}
	for {
		if at, ok := s.places[path]; ok || path == "" {
			return at
		}
		path = parent(path)
	}
}

// knows reports whether path was written or filled in, or cannot be told.
func (s *source) knows(path string) bool {
	if s == nil {
		return true
	}
	_, written := s.places[path]
	return written || s.filled[path] != ""
}

// origin names the reference that path was filled in from; empty for none.
func (s *source) origin(path string) string {
	if s == nil {
		return ""
	}
	return s.filled[path]
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

// At returns err as a [Problem] at the place where path was written, or at its
// nearest parent's when path was left to its default. It lets another room
// refuse a setting with a position. Without a file, only the path is known.
// A nil err gives nil.
func (c *Config) At(path string, err error) error {
	if err == nil {
		return nil
	}
	at := c.src.place(path)
	return Problem{File: c.src.name(), Line: at.line, Col: at.col, Path: path, Message: err.Error(), cause: err}
}
