package config

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// property returns why a librdkafka property cannot be passed through, or nothing when it can.
func property(name string) string {
	switch name {
	case "bootstrap.servers", "metadata.broker.list":
		return use("bootstrap_servers")
	case "group.id":
		return use("group_id")
	case "auto.commit.interval.ms", "offset.store.sync.interval.ms":
		return use("commit_interval")
	case "statistics.interval.ms":
		return use("statistics_interval")
	case "message.timeout.ms", "delivery.timeout.ms", "request.timeout.ms":
		return use("send_timeout")
	case "log_level", "log.queue", "log.thread.name":
		return use("log")
	case "test.mock.num.brokers":
		return use("mock")
	case "enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store", "offset.store.method":
		return fixed("offsets are committed when their events are done; see commit_interval")
	case "auto.offset.reset":
		return fixed("always earliest, so that no event is lost")
	case "partition.assignment.strategy", "group.protocol", "group.remote.assignor":
		return fixed("always cooperative-sticky; see group_id for the group")
	case "enable.idempotence", "acks", "request.required.acks", "transactional.id", "transaction.timeout.ms":
		return fixed("the producer is always idempotent; see send_timeout for its limit")
	case "enable.partition.eof", "delivery.report.only.error", "produce.offset.report", "enabled_events", "opaque":
		return fixed("it belongs to the client's own machinery; no option replaces it")
	}
	switch {
	case strings.HasPrefix(name, "go."), strings.HasSuffix(name, "_cb"), strings.HasSuffix(name, "_cmp"):
		return fixed("it belongs to the client's own machinery; no option replaces it")
	case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._") != "":
		return "not a librdkafka property: names have lower-case letters, digits and dots"
	default:
		return ""
	}
}

func use(option string) string { return "set by Prosody; use the option " + option }

func fixed(why string) string { return "set by Prosody: " + why }

// secretive reports whether the value of a librdkafka property must not be shown.
func secretive(name string) bool {
	for _, part := range []string{"password", "secret", "jaas", "token", "ssl.key", "ssl_key", "keystore",
		"oauthbearer.config", "private", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// passthrough collects librdkafka properties from the source and, where not set there, the environment.
func (r *resolver) passthrough() {
	for _, set := range r.source.entries {
		name, ok := strings.CutPrefix(set.name, kafkaPrefix)
		if !ok || property(name) != "" { // a refused name was reported before
			continue
		}
		if set.kind != plain {
			r.add(Fault{Option: set.name, Rule: "takes one text", Class: WrongType})
			continue
		}
		r.pass(Fault{Option: set.name, Value: set.text}, name)
	}
	if r.env == nil {
		return
	}
	names := slices.Clone(r.env.Names())
	slices.Sort(names)
	for _, env := range slices.Compact(names) {
		rest, ok := strings.CutPrefix(env, kafkaEnv)
		if !ok {
			continue
		}
		name := strings.ReplaceAll(strings.ToLower(rest), "_", ".")
		text, set := variable(r.env, env)
		if _, explicit := r.source.get(kafkaPrefix + name); explicit || !set {
			continue
		}
		found := Fault{Option: kafkaPrefix + name, Env: env, Value: text, Stage: Create, FromEnv: true}
		if found.Rule = property(name); found.Rule != "" {
			found.Class = UnknownName
			r.add(found)
			continue
		}
		r.pass(found, name)
	}
}

// pass keeps a property whose value is good text; found tells where it came from.
func (r *resolver) pass(found Fault, name string) {
	switch {
	case !utf8.ValidString(found.Value):
		found.Rule = "must be valid UTF-8"
	case strings.ContainsRune(found.Value, 0):
		found.Rule = "must not contain a NUL character"
	default:
		r.config.Kafka[name] = found.Value
		return
	}
	r.add(found)
}
