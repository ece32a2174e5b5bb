package main

// #include "shim.h"
import "C"

import (
	"slices"
	"strings"
	"time"

	"prosody/core/clock"
	stores "prosody/core/store/memory"
)

// world is what clients in mock mode with the same servers share beside their records.
type world struct {
	clock  *clock.Shifted
	stores *stores.Registry
}

// world finds or makes the world of some servers.
func (s *process) world(servers []string) *world {
	name := worldName(servers)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.worlds[name]
	if found == nil {
		shifted := clock.NewShifted()
		found = &world{shifted, stores.NewRegistry(stores.Settings{Clock: shifted})}
		s.worlds[name] = found
	}
	return found
}

// worldName is the same for the same servers, whatever their order.
func worldName(servers []string) string {
	names := make([]string, 0, len(servers))
	for _, server := range servers {
		if server = strings.TrimSpace(server); server != "" {
			names = append(names, server)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

//export goMockAdvance
func goMockAdvance(servers C.prosody_bytes, milliseconds C.int64_t, e *C.prosody_error) (status C.prosody_status) {
	const name = "prosody_mock_advance"
	defer guard(name, e, &status)
	if !enter(name) {
		return refuse(e)
	}
	library.mutex.Lock()
	found := library.worlds[worldName(strings.Split(text(servers), ","))]
	library.mutex.Unlock()
	if found == nil {
		return fail(e, C.PROSODY_ERR_ARGUMENT, "servers: no client in mock mode has them")
	}
	found.clock.Advance(time.Duration(milliseconds) * time.Millisecond)
	return C.PROSODY_OK
}
