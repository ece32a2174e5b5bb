package record

import "prosody/core/request"

// AnswerSize is the fixed part of an answer.
const AnswerSize = 16

// Answers packs what came of a request: the data of its completion.
func Answers(answers []request.Answer) string {
	size := 0
	for i := range answers {
		size += padded(AnswerSize + len(answers[i].Subsystem) + value(&answers[i]))
	}
	data := make([]byte, size)
	at := 0
	for i := range answers {
		one := &answers[i]
		part := data[at : at+padded(AnswerSize+len(one.Subsystem)+value(one))]
		native.PutUint32(part, uint32(len(part)))
		native.PutUint32(part[4:], uint32(one.Kind))
		native.PutUint32(part[8:], uint32(len(one.Subsystem)))
		native.PutUint32(part[12:], uint32(value(one)))
		fill(part, AnswerSize, one.Subsystem, string(one.Value), one.Text)
		at += len(part)
	}
	return string(data)
}

// value is the size of what follows the name: an answer has a value or a text.
func value(one *request.Answer) int { return len(one.Value) + len(one.Text) }
