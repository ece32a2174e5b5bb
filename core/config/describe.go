package config

import "encoding/json"

// Check resolves and returns every fault as a JSON array.
func Check(source *Source, env Environ) []byte {
	_, faults := Resolve(source, env)
	type row struct {
		Option      string `json:"option"`
		Environment string `json:"environment,omitempty"`
		Value       string `json:"value"`
		Rule        string `json:"rule"`
		Stage       string `json:"stage"`
		Class       string `json:"class"`
		FromEnv     bool   `json:"from_environment"`
		Message     string `json:"message"`
	}
	rows := make([]row, len(faults))
	for i, fault := range faults {
		rows[i] = row{fault.Option, fault.Env, fault.Value, fault.Rule, fault.Stage.String(),
			fault.Class.String(), fault.FromEnv, fault.Error()}
	}
	return encode(rows)
}

// Describe returns the table of options as a JSON array, for the bindings.
func Describe() []byte {
	type row struct {
		Name        string   `json:"name"`
		Environment string   `json:"environment,omitempty"`
		Area        string   `json:"area"`
		Type        string   `json:"type"`
		Default     string   `json:"default,omitempty"`
		Optional    bool     `json:"optional"`
		Secret      bool     `json:"secret"`
		EnvOnly     bool     `json:"environment_only"`
		Values      []string `json:"values,omitempty"`
		Min         string   `json:"min,omitempty"`
		Max         string   `json:"max,omitempty"`
		Stage       string   `json:"stage"`
		Help        string   `json:"help"`
	}
	options := Options()
	rows := make([]row, len(options))
	for i, o := range options {
		rows[i] = row{o.Name, o.Env, string(o.Area), o.Type.String(), o.Default, o.Optional, o.Secret, o.EnvOnly,
			o.Values, o.Min, o.Max, o.Stage.String(), o.Help}
	}
	return encode(rows)
}

// encode writes texts and numbers, which cannot fail.
func encode(rows any) []byte {
	text, err := json.Marshal(rows)
	if err != nil {
		return []byte("[]")
	}
	return text
}
