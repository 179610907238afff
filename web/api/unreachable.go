package api

// UnreachableError is the error of a client that got no answer.
type UnreachableError struct {
	// Sent is false if the order cannot have reached headgate. If it is true, the
	// order may have been carried out or not.
	Sent bool
	Err  error
}

// Error says what came instead of an answer.
func (s *UnreachableError) Error() string { return "no answer from the admin plane: " + s.Err.Error() }

// Unwrap returns what came instead of an answer.
func (s *UnreachableError) Unwrap() error { return s.Err }
