package sqlite

// children are the things that the test binary can do as another process.
var children = map[string]func(args []string) error{}
