package admission_test

import "math/rand/v2"

// source is what a driver draws its choices from.
type source interface {
	// draw returns a number from 0 to n-1.
	draw(n int) int
	// empty reports that there is nothing left to draw from.
	empty() bool
}

// randSource is an endless source of seeded random choices.
type randSource struct{ *rand.Rand }

func newRandSource(seed uint64) randSource { return randSource{rand.New(rand.NewPCG(seed, 2))} }

func (d randSource) draw(n int) int { return d.IntN(n) }
func (randSource) empty() bool      { return false }

// byteSource is a source of choices that a fuzzer can write: one byte a choice.
type byteSource struct{ bytes []byte }

func (s *byteSource) draw(n int) int {
	if s.empty() {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % n
}

func (s *byteSource) empty() bool { return len(s.bytes) == 0 }
