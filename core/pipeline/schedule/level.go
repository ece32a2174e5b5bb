package schedule

import (
	"math"
	"time"
)

// halfLife is the time in which used time loses half of its weight.
const halfLife = 120 * time.Second

// level is a used time that decays, as the logarithm of its value at the origin of
// time: log2(seconds) + t/halfLife. So levels compare by < at any moment, and none has
// to be rewritten while time goes by.
type level float64

// unused is the level of a key that has not run.
var unused = level(math.Inf(-1))

// at gives the seconds that are left of it now.
func (l level) at(now time.Duration) float64 { return math.Exp2(float64(l) - age(now)) }

// add charges more time.
func (l level) add(took, now time.Duration) level {
	return level(math.Log2(l.at(now)+took.Seconds()) + age(now))
}

func age(now time.Duration) float64 { return float64(now) / float64(halfLife) }

// share is a class's time by its weight; without weight it is infinite, so that the
// class runs only when nobody else wants to.
func share(seconds, weight float64) float64 {
	if weight <= 0 {
		return math.Inf(1)
	}
	return seconds / weight
}
