package export

import (
	"fmt"
	"sync"
	"time"
)

// pause is the least time between two lines about failed exports.
const pause = 30 * time.Second

// seldom passes on one error in each pause, with how many it left out.
func seldom(failed func(error)) func(error) {
	var mutex sync.Mutex
	var last time.Time
	left := 0
	return func(err error) {
		mutex.Lock()
		now := time.Now()
		if !last.IsZero() && now.Sub(last) < pause {
			left++
			mutex.Unlock()
			return
		}
		if left > 0 {
			err = fmt.Errorf("%w (and %d like it)", err, left)
		}
		last, left = now, 0
		mutex.Unlock()
		failed(err)
	}
}
