package proxy

// nesting remembers which of the values around are objects, a bit each.
type nesting struct {
	depth int
	first uint64   // the outermost 64
	more  []uint64 // those inside
}

// push goes one level in, if there may be one more.
func (n *nesting) push(object bool) bool {
	if n.depth == maxNesting {
		return false
	}
	word, bit := n.wordOf(n.depth), uint64(1)<<(n.depth%64)
	*word &^= bit
	if object {
		*word |= bit
	}
	n.depth++
	return true
}

func (n *nesting) pop() { n.depth-- }

// object tells whether the innermost level is an object.
func (n *nesting) object() bool {
	return *n.wordOf(n.depth - 1)&(1<<((n.depth-1)%64)) != 0
}

// wordOf returns the bits that hold a level.
func (n *nesting) wordOf(level int) *uint64 {
	if level < 64 {
		return &n.first
	}
	i := level/64 - 1
	if i == len(n.more) {
		n.more = append(n.more, 0)
	}
	return &n.more[i]
}
