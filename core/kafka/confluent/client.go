package confluent

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	library "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"prosody/core/kafka"
)

// client is a confluent-kafka-go producer with the goroutines that empty its
// channels. Producer and Admin stand on it.
type client struct {
	library *library.Producer
	readers sync.WaitGroup
	log     func(level int, text string)
	// trouble is the last error of the client as a whole, nil once a record got through.
	trouble atomic.Pointer[string]
	fatal   atomic.Pointer[kafka.Error]
}

func connect(what string, properties map[string]string, log func(int, string), report func(*library.Message)) (*client, error) {
	config := library.ConfigMap{
		"go.logs.channel.enable":    true,
		"go.events.channel.size":    4096,
		"go.produce.channel.size":   1,
		"go.delivery.report.fields": "none",
	}
	for name, value := range properties {
		config[name] = value
	}
	if err := validate(properties); err != nil {
		return nil, err
	}
	made, err := library.NewProducer(&config)
	if err != nil {
		text := err.Error()
		for name, value := range properties {
			text = redact(name, value, text)
		}
		return nil, fail(kafka.BadConfig, what+": "+text)
	}
	c := &client{library: made, log: heard(log)}
	c.readers.Go(func() {
		for line := range made.Logs() {
			if c.log != nil {
				c.log(line.Level, line.Tag+": "+line.Message)
			}
		}
	})
	c.readers.Go(func() {
		for event := range made.Events() {
			switch event := event.(type) {
			case *library.Message:
				report(event)
			case library.Error:
				c.problem(event)
			}
		}
	})
	return c, nil
}

// problem keeps an error of the client for those whose calls end because of it.
func (c *client) problem(err library.Error) {
	text := err.Error()
	if err.IsFatal() {
		c.fatal.CompareAndSwap(nil, fail(kafka.Fatal, fmt.Sprintf("the client is unusable: %s (%v)", text, err.Code())))
	}
	if code := meaning(err.Code()); code == kafka.Unavailable || code == kafka.Denied {
		if err.Code() != library.ErrAllBrokersDown || c.trouble.Load() == nil { // it says less than what led to it
			c.trouble.Store(&text)
		}
	}
	if c.log != nil {
		c.log(3, "ERROR: "+text)
	}
}

// Trouble is the last error of the client as a whole; empty once a record got through.
func (c *client) Trouble() string {
	if text := c.trouble.Load(); text != nil {
		return *text
	}
	return ""
}

// explain adds the client's own trouble to a failure that only says "timed out".
func (c *client) explain(problem *kafka.Error) *kafka.Error {
	if text := c.Trouble(); text != "" && problem.Code == kafka.TimedOut {
		return fail(kafka.Unavailable, problem.Text+"; the last trouble of the client: "+text)
	}
	return problem
}

// close ends librdkafka's threads and the readers, in bounded time.
func (c *client) close() error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.library.Close()
		c.readers.Wait()
	}()
	select {
	case <-stopped:
		return nil
	case <-time.After(stopping):
		return fail(kafka.TimedOut, "close: the threads of librdkafka did not end in time; they hang in a system call")
	}
}
