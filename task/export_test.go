package task

// Transitions shows the arrows to the tests.
func Transitions() []transition { return transitions }
