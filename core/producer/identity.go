package producer

import (
	"encoding/json"

	"prosody/core/fault"
)

// identity checks a payload and finds its text id.
func identity(payload []byte) (id string, hasID bool, err error) {
	if !json.Valid(payload) {
		return "", false, fault.New(fault.Invalid, "payload: is not valid JSON")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil {
		return "", false, nil
	}
	if json.Unmarshal(members["id"], &id) != nil {
		return "", false, nil
	}
	return id, len(members["id"]) > 0 && members["id"][0] == '"', nil
}
