package cassandra

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"prosody/core/fault"
)

// failure names the kind of an error of an operation: transient unless nothing but
// other data can help.
func failure(op string, err error) error {
	if err == nil {
		return nil
	}
	if known := (*fault.Error)(nil); errors.As(err, &known) {
		return err
	}
	kind := fault.Store
	if large(err) {
		kind = fault.TooLarge
	}
	return fault.Wrap(kind, err, "cassandra "+op)
}

// large says whether a node refused a request for its size, because its limits are lower
// than ours.
func large(err error) bool {
	if errors.Is(err, gocql.ErrFrameTooBig) || errors.Is(err, gocql.ErrTooManyStmts) {
		return true
	}
	var answer gocql.RequestError
	if !errors.As(err, &answer) {
		return false
	}
	text := answer.Message()
	for _, sign := range []string{"too large", "exceeds allowed maximum", "is longer than maximum"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// denied says whether the user lacks a right.
func denied(err error) bool {
	var rights *gocql.RequestErrUnauthorized
	var password *gocql.RequestErrCredentials
	return errors.As(err, &rights) || errors.As(err, &password)
}

// retry lets a request be sent twice: at once over another connection when one broke,
// to another node when a node did not do it. All requests are idempotent.
type retry struct{}

// Attempt says whether there may be another.
func (retry) Attempt(request gocql.RetryableQuery) bool {
	return request.Attempts() < 2 && request.Context().Err() == nil
}

// GetRetryType says where the next attempt goes.
func (retry) GetRetryType(err error) gocql.RetryType {
	var (
		broken      net.Error
		unavailable *gocql.RequestErrUnavailable
		overloaded  *gocql.RequestErrOverloaded
		starting    *gocql.RequestErrBootstrapping
		write       *gocql.RequestErrWriteTimeout
		read        *gocql.RequestErrReadTimeout
		answer      gocql.RequestError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return gocql.Rethrow
	case errors.As(err, &unavailable), errors.As(err, &overloaded), errors.As(err, &starting),
		errors.As(err, &write), errors.As(err, &read), errors.Is(err, gocql.ErrTimeoutNoResponse):
		return gocql.RetryNextHost
	case errors.As(err, &answer), errors.Is(err, gocql.ErrFrameTooBig):
		return gocql.Rethrow
	case errors.Is(err, gocql.ErrConnectionClosed), errors.Is(err, io.EOF), errors.As(err, &broken):
		return gocql.Retry
	}
	return gocql.RetryNextHost
}

// logger passes what the driver says on; most of it is for debugging.
type logger struct{ log *slog.Logger }

func (l logger) write(level slog.Level, text string, fields []gocql.LogField) {
	if l.log == nil || !l.log.Enabled(context.Background(), level) {
		return
	}
	values := make([]any, 0, len(fields))
	for _, field := range fields {
		values = append(values, slog.Any(field.Name, field.Value.Any()))
	}
	l.log.Log(context.Background(), level, "cassandra: "+text, values...)
}

func (l logger) Error(text string, fields ...gocql.LogField)   { l.write(slog.LevelWarn, text, fields) }
func (l logger) Warning(text string, fields ...gocql.LogField) { l.write(slog.LevelInfo, text, fields) }
func (l logger) Info(text string, fields ...gocql.LogField)    { l.write(slog.LevelDebug, text, fields) }
func (l logger) Debug(text string, fields ...gocql.LogField)   { l.write(slog.LevelDebug, text, fields) }
