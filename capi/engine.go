package main

// #include "shim.h"
import "C"

import (
	"log/slog"

	"prosody/core/client"
)

// engine is the core's client, as the boundary needs it.
type engine = *client.Client

// plan is a configuration that a client can be made of.
type plan = *client.Plan

var (
	prepare  = client.Prepare
	newAdmin = client.NewAdmin
)

// construct makes a client of the core. It may wait for a network.
func construct(plan plan, log *slog.Logger) (engine, error) {
	return client.New(plan, client.Deps{Memory: library.memory, Log: log})
}

// state tells the client's state, and why it can never consume.
func (p *peer) state() (C.int32_t, error) {
	if p.core == nil {
		return C.PROSODY_STATE_SHUT_DOWN, nil
	}
	state, err := p.core.State()
	switch {
	case err != nil:
		return C.PROSODY_STATE_UNCONFIGURED, err
	case state == client.Running:
		return C.PROSODY_STATE_RUNNING, nil
	case state == client.ShutDown:
		return C.PROSODY_STATE_SHUT_DOWN, nil
	}
	return C.PROSODY_STATE_CONFIGURED, nil
}
