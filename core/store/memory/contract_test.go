package memory

import (
	"testing"
	"time"

	"prosody/core/clock"
	"prosody/core/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.World {
		manual := clock.NewManual(time.Unix(1000, 0))
		return storetest.World{Store: NewRegistry(Settings{Clock: manual}).Store("x"), Pass: manual.Advance}
	})
}

func TestCatalog(t *testing.T) { storetest.Catalog(t, NewRegistry(Settings{}).Store("x")) }
