package pipeline

import "context"

// Leave makes the outcome of an event whose owner gives the partition up; what tells
// how far it came.
func Leave(invocation *Invocation, what string) Outcome {
	text := "left to the next owner: " + context.Cause(invocation.Leaving).Error()
	if what != "" {
		text = what + "; " + text
	}
	return Outcome{Class: Aborted, Text: text}
}
