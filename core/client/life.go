package client

import (
	"context"
	"errors"
	"log/slog"

	"prosody/core/clock"
	"prosody/core/config"
	"prosody/core/consumer"
	"prosody/core/event"
	"prosody/core/fault"
	"prosody/core/kafka"
	"prosody/core/pipeline"
	"prosody/core/pipeline/gate"
	"prosody/core/pipeline/mode"
	"prosody/core/pipeline/monopoly"
	"prosody/core/pipeline/schedule"
)

// Subscribe starts the consumer; events go to host. One subscription at a time.
func (c *Client) Subscribe(ctx context.Context, host Host) error {
	c.mutex.Lock()
	switch {
	case c.phase >= closing:
		c.mutex.Unlock()
		return errClosed()
	case c.phase != idle:
		c.mutex.Unlock()
		return fault.New(fault.State, "consumer is already subscribed")
	}
	if err := c.plan.subscribing(); err != nil {
		c.mutex.Unlock()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.abandon = cancel
	c.move(starting)
	c.mutex.Unlock()

	started, err := c.start(ctx, host)

	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.abandon = nil
	if err != nil {
		c.move(idle)
		return err
	}
	c.run = started
	c.move(running)
	return nil
}

// start makes a run; what it began ends again when something fails.
func (c *Client) start(ctx context.Context, host Host) (*run, error) {
	settings := c.plan.config
	made := &run{}
	failed := func(err error) (*run, error) {
		return nil, errors.Join(fault.Wrap(fault.Config, err, "failed to initialize consumer"), c.end(made))
	}
	var err error
	if made.keep, err = c.keep(); err != nil {
		return failed(err)
	}
	if made.chain, err = c.compose(host, made.keep); err != nil {
		return failed(err)
	}
	if settings.ProbePort >= 0 {
		if made.site, err = c.open(); err != nil {
			return failed(err)
		}
	}
	if err = made.keep.register(ctx); err != nil {
		return failed(err)
	}
	made.consumer, err = consumer.Start(ctx, consumer.Options{
		Cluster:         c.plan.cluster(c.deps.Memory),
		Servers:         settings.BootstrapServers,
		Group:           settings.GroupID,
		Topics:          settings.SubscribedTopics,
		Properties:      settings.Kafka,
		AllowedEvents:   settings.AllowedEvents,
		MaxUncommitted:  settings.MaxUncommitted,
		CommitInterval:  settings.CommitInterval,
		PollInterval:    settings.PollInterval,
		ShutdownTimeout: settings.ShutdownTimeout,
		StallThreshold:  settings.StallThreshold,
		Clock:           clock.Real{},
		Fault:           c.deps.Fault,
		Log:             c.target("prosody.consumer"),
		Handler:         made.chain,
		Decode:          event.Decode,
		Invalid:         c.invalid(made.chain),
		Ledger:          made.keep,
		Timers:          made.keep.timers,
		Before:          c.before,
	})
	if err != nil {
		return failed(err)
	}
	made.keep.consumer.Store(made.consumer)
	return made, nil
}

// end closes what belongs to a consumer that has stopped.
func (c *Client) end(run *run) error {
	var err error
	if run.keep != nil {
		err = run.keep.close()
	}
	if run.chain != nil {
		run.chain.Close()
	}
	if run.site != nil {
		err = errors.Join(err, run.site.close())
	}
	return err
}

// Unsubscribe stops the consumer; several at once wait for the same end.
func (c *Client) Unsubscribe(ctx context.Context) error {
	if err := c.settle(ctx, starting); err != nil {
		return err
	}
	switch c.phase {
	case closing, closed:
		c.mutex.Unlock()
		return errClosed()
	case idle:
		c.mutex.Unlock()
		return fault.New(fault.State, "consumer is not subscribed")
	case stopping:
		c.mutex.Unlock()
		if err := c.settle(ctx, stopping); err != nil {
			return err
		}
		c.mutex.Unlock()
		return nil
	}
	c.move(stopping)
	c.mutex.Unlock()

	err := c.stop(ctx)

	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.phase == stopping {
		c.move(idle)
	}
	return err
}

// stop ends the consumer and what belongs to it. Nobody else does so meanwhile.
func (c *Client) stop(ctx context.Context) error {
	running := c.current()
	err := running.consumer.Stop(ctx)
	past := c.Facts()
	err = errors.Join(err, c.end(running))
	c.mutex.Lock()
	c.run, c.past, c.before = nil, past, nil
	if running.consumer.Active() > 0 {
		c.before = running.consumer
	}
	c.mutex.Unlock()
	if err != nil {
		return fault.Wrap(fault.Kafka, err, "the consumer did not stop cleanly")
	}
	return nil
}

// Shutdown stops the consumer and closes the client. All calls wait for the same
// end. It fails only when ctx ends while another call has not ended.
func (c *Client) Shutdown(ctx context.Context) error {
	c.mutex.Lock()
	if c.abandon != nil {
		c.abandon()
	}
	c.mutex.Unlock()
	if err := c.settle(ctx, starting, stopping, closing); err != nil {
		return err
	}
	if c.phase == closed {
		c.mutex.Unlock()
		return nil
	}
	consumes := c.phase == running
	c.move(closing)
	c.mutex.Unlock()

	var err error
	if consumes {
		err = c.stop(ctx)
	}
	flush, cancel := context.WithTimeout(ctx, closeBudget)
	defer cancel()
	c.hush(flush)
	// The client is closed all the same, and each send that did not end has told its
	// caller: an error here would only hide another one of the host.
	err = errors.Join(err, c.producer.Close(flush), c.link.Close(flush))
	c.records.Close(flush)
	if err = errors.Join(err, c.store.Close()); err != nil {
		c.target("prosody.client").Error("shutdown was not clean", "error", err)
	}
	c.unseen(c.last())
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.move(closed)
	return nil
}

// compose makes the chain of the client's mode around the host's handler.
func (c *Client) compose(host Host, kept *keep) (*mode.Chain, error) {
	settings := c.plan.config
	var share *monopoly.Options
	if settings.MonopolizationEnabled {
		share = &monopoly.Options{
			Threshold: settings.MonopolizationThreshold,
			Window:    settings.MonopolizationWindow,
			Cache:     settings.MonopolizationCacheSize,
		}
	}
	return mode.New(mode.Options{
		Mode:          settings.Mode,
		Host:          host,
		Timeout:       settings.Timeout,
		MaxRetries:    settings.MaxRetries,
		RetryBase:     settings.RetryBase,
		MaxRetryDelay: settings.MaxRetryDelay,
		Schedule: schedule.Options{
			Concurrency:   settings.MaxConcurrency,
			FailureWeight: settings.SchedulerFailureWeight,
			MaxWait:       settings.SchedulerMaxWait,
			WaitWeight:    settings.SchedulerWaitWeight,
			Cache:         settings.SchedulerCacheSize,
		},
		Defer:    settings.DeferEnabled,
		Base:     settings.DeferBase,
		Most:     settings.DeferMaxDelay,
		Gate:     gate.Options{Threshold: settings.DeferFailureThreshold, Window: settings.DeferFailureWindow},
		Monopoly: share,
		Read:     kept.loader.Read,
		State:    kept.state,
		Tracer:   c.plan.tracer(c.deps.Tracer),
		Story:    c.story(),
		Board:    kept.board,

		FailureTopic: settings.FailureTopic,
		Group:        settings.GroupID,
		Source:       settings.SourceSystem,
		Send:         c.producer.Send,
		Answers:      c.answers,
		Clock:        clock.Real{},
		Dates:        c.deps.Clock,
		Log:          c.target("prosody.pipeline"),
	})
}

// invalid copies records that are no events to the failure topic, where that is
// wanted; nil leaves it at the line and the count that the consumer makes of each.
func (c *Client) invalid(chain *mode.Chain) func(context.Context, *kafka.Record, string) error {
	if c.plan.config.InvalidRecords != config.InvalidDeadLetter || chain.Letters == nil {
		return nil
	}
	return func(leaving context.Context, record *kafka.Record, reason string) error {
		if outcome := chain.Letters.Invalid(leaving, record, reason); outcome.Class != pipeline.Success {
			return errors.New(outcome.Text)
		}
		return nil
	}
}

// target gives a logger whose lines carry the name of a part.
func (c *Client) target(name string) *slog.Logger { return c.deps.Log.With("target", name) }
