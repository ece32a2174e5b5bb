package mode

import (
	"prosody/core/pipeline/gate"
	"prosody/core/pipeline/monopoly"
)

// Facts are the state of a chain at one moment.
type Facts struct {
	Permits     int             `json:"permits"` // handlers that may run at once
	Used        int             `json:"permits_used"`
	Gates       []gate.Fact     `json:"gates"`
	Monopolized int             `json:"monopolized"` // keys that are held back
	Monopolies  []monopoly.Fact `json:"monopolies"`  // some of them
}

// listed is how many monopolies are told.
const listed = 20

// Snapshot reads the state.
func (c *Chain) Snapshot() Facts {
	facts := Facts{Permits: c.scheduler.Permits(), Used: c.scheduler.Running()}
	if c.gate != nil {
		facts.Gates = c.gate.Snapshot()
	}
	if c.monopoly != nil {
		facts.Monopolized, facts.Monopolies = c.monopoly.Snapshot(listed)
	}
	return facts
}
