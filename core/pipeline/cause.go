package pipeline

// Cause says why a handler is to stop. context.Cause of the context that a handler
// gets, and of Leaving, is one of them. The numbers are those of the C ABI.
type Cause uint8

// The causes.
const (
	TimedOut     Cause = iota + 1 // the attempt's time-out is over
	Revoked                       // the partition goes to another member
	ShuttingDown                  // the consumer stops
	Lost                          // the partition belongs to another member already
)

func (c Cause) Error() string {
	switch c {
	case TimedOut:
		return "the handler's time-out is over"
	case Revoked:
		return "the partition has been revoked"
	case ShuttingDown:
		return "the consumer is shutting down"
	case Lost:
		return "the partition has been lost"
	}
	return "cancelled"
}
