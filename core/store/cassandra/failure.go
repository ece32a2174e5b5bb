package cassandra

import (
	"context"
	"errors"
	"log/slog"
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

// guard makes an error of kind Store of any failure of the driver, its panics too: it is
// no part of ours that would end the process.
func guard(op string, call func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fault.New(fault.Store, "cassandra %s: the driver panicked: %v", op, cause)
		}
	}()
	return failure(op, call())
}

// exec sends a write.
func exec(ctx context.Context, op string, write gocql.Statement) error {
	return guard(op, func() error { return write.ExecContext(ctx) })
}

// scan reads all rows of a query; next reads one, or says that there is none.
func scan(ctx context.Context, op string, query *gocql.Query, next func(*gocql.Iter) bool) error {
	return guard(op, func() error {
		iter := query.IterContext(ctx)
		for next(iter) {
		}
		return iter.Close()
	})
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

// retry lets a request be sent three times: at once over another connection when one
// broke, to another node when a node did not do it. All requests are idempotent.
type retry struct{}

// Attempt says whether there may be another.
func (retry) Attempt(request gocql.RetryableQuery) bool {
	return request.Attempts() < 3 && request.Context().Err() == nil
}

// GetRetryType says where the next attempt goes.
func (retry) GetRetryType(err error) gocql.RetryType {
	var (
		unavailable *gocql.RequestErrUnavailable
		overloaded  *gocql.RequestErrOverloaded
		starting    *gocql.RequestErrBootstrapping
		write       *gocql.RequestErrWriteTimeout
		read        *gocql.RequestErrReadTimeout
		answer      gocql.RequestError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, gocql.ErrFrameTooBig):
		return gocql.Rethrow
	case errors.As(err, &unavailable), errors.As(err, &overloaded), errors.As(err, &starting),
		errors.As(err, &write), errors.As(err, &read), errors.Is(err, gocql.ErrTimeoutNoResponse):
		return gocql.RetryNextHost
	case errors.As(err, &answer):
		return gocql.Rethrow
	}
	return gocql.Retry // the connection broke
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
