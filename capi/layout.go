package main

// #include "shim.h"
import "C"

import (
	"prosody/capi/internal/keyed"
	"prosody/capi/internal/record"
	"prosody/core/mock"
	"prosody/core/pipeline"
	"prosody/core/request"
)

// What the package record and the core know of the header is what the header says: a difference
// does not compile.
var (
	_ [C.sizeof_prosody_record]byte            = [record.HeadSize]byte{}
	_ [C.sizeof_prosody_message_record]byte    = [record.MessageSize]byte{}
	_ [C.sizeof_prosody_timer_record]byte      = [record.TimerSize]byte{}
	_ [C.sizeof_prosody_cancel_record]byte     = [record.CancelSize]byte{}
	_ [C.sizeof_prosody_completion_record]byte = [record.CompletionSize]byte{}
	_ [C.sizeof_prosody_log_record]byte        = [record.LogSize]byte{}
	_ [C.sizeof_prosody_fatal_record]byte      = [record.FatalSize]byte{}
	_ [C.sizeof_prosody_entry]byte             = [keyed.EntrySize]byte{}
	_ [C.sizeof_prosody_answer]byte            = [record.AnswerSize]byte{}

	_ [C.PROSODY_RECORD_MESSAGE]byte    = [record.KindMessage]byte{}
	_ [C.PROSODY_RECORD_EXCISE]byte     = [record.KindExcise]byte{}
	_ [C.PROSODY_RECORD_TIMER]byte      = [record.KindTimer]byte{}
	_ [C.PROSODY_RECORD_CANCEL]byte     = [record.KindCancel]byte{}
	_ [C.PROSODY_RECORD_COMPLETION]byte = [record.KindCompletion]byte{}
	_ [C.PROSODY_RECORD_LOG]byte        = [record.KindLog]byte{}
	_ [C.PROSODY_RECORD_FATAL]byte      = [record.KindFatal]byte{}
	_ [C.PROSODY_FLAG_FAILURE]byte      = [record.FlagFailure]byte{}
	_ [C.PROSODY_FLAG_RESPONSE]byte     = [record.FlagResponse]byte{}

	_ [C.PROSODY_ANSWER_SUCCESS]byte   = [request.Success]byte{}
	_ [C.PROSODY_ANSWER_HANDLER]byte   = [request.Handler]byte{}
	_ [C.PROSODY_ANSWER_TIMEOUT]byte   = [request.Timeout]byte{}
	_ [C.PROSODY_ANSWER_FORMAT]byte    = [request.Format]byte{}
	_ [C.PROSODY_ANSWER_MALFORMED]byte = [request.Malformed]byte{}

	_ [C.PROSODY_MOCK_READ]byte    = [mock.Read]byte{}
	_ [C.PROSODY_MOCK_WRITE]byte   = [mock.Write]byte{}
	_ [C.PROSODY_MOCK_PRODUCE]byte = [mock.Produce]byte{}
	_ [C.PROSODY_MOCK_CONSUME]byte = [mock.Consume]byte{}
	_ [C.PROSODY_MOCK_COMMIT]byte  = [mock.Commit]byte{}

	_ [C.PROSODY_CANCEL_TIMEOUT]byte  = [pipeline.TimedOut]byte{}
	_ [C.PROSODY_CANCEL_REVOKED]byte  = [pipeline.Revoked]byte{}
	_ [C.PROSODY_CANCEL_SHUTDOWN]byte = [pipeline.ShuttingDown]byte{}
	_ [C.PROSODY_CANCEL_LOST]byte     = [pipeline.Lost]byte{}
)
