package metric

import (
	"go.opentelemetry.io/otel/attribute"

	"prosody/core/observe"
)

func disposition(word string) attribute.KeyValue {
	return attribute.String("prosody.disposition", word)
}

// asking is requests and their answers.
func asking() []instrument {
	return []instrument{
		{"prosody.request.duration", "s", "Time from a request to its last outcome.", histogram,
			func(f *observe.Facts, to *points) {
				if f.Asked.Count > 0 {
					to.spread(f.Asked)
				}
			}},
		{"prosody.request.pending", "{request}", "Requests that wait for outcomes.", level,
			func(f *observe.Facts, to *points) { to.count(int64(f.Requests.Pending)) }},
		{"prosody.request.outcomes", "{outcome}", "Outcomes of requests, one for each subsystem, by prosody.outcome.", counter,
			func(f *observe.Facts, to *points) {
				outcome := func(word string, count int64) { to.count(count, attribute.String("prosody.outcome", word)) }
				outcome("success", f.Requests.Successes)
				outcome("handler_error", f.Requests.HandlerErrors)
				outcome("timeout", f.Requests.Timeouts)
				outcome("unreadable", f.Requests.Unreadable)
			}},
		{"prosody.response.dispositions", "{response}", "Answers that came to a requester, by prosody.disposition.", counter,
			func(f *observe.Facts, to *points) {
				to.count(f.Requests.Accepted, disposition("accepted"))
				to.count(f.Requests.Duplicate, disposition("duplicate"))
				to.count(f.Requests.Foreign, disposition("foreign"))
				to.count(f.Requests.Late, disposition("late"))
				to.count(f.Requests.Unknown, disposition("unknown"))
			}},
		{"prosody.response.stages", "{response}", "Answers of a subsystem on their way out, by prosody.disposition.", counter,
			func(f *observe.Facts, to *points) {
				if f.Answers == nil {
					return
				}
				to.count(f.Answers.Delivered, disposition("delivered"))
				to.count(f.Answers.Retried, disposition("retried"))
				to.count(f.Answers.Unwanted, disposition("unwanted"))
				to.count(f.Answers.Failed, disposition("failed"))
				to.count(f.Answers.Expired, disposition("expired"))
				to.count(f.Answers.Dropped, disposition("dropped"))
				to.count(f.Answers.Oversized, disposition("oversized"))
			}},
		{"prosody.response.pending", "{response}", "Answers of a subsystem that are not delivered yet.", level,
			func(f *observe.Facts, to *points) {
				if f.Answers != nil {
					to.count(int64(f.Answers.Pending))
				}
			}},
	}
}
