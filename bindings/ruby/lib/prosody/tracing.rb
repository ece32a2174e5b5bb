# frozen_string_literal: true

module Prosody
  # Trace contexts between the OpenTelemetry of the program and the library.
  #
  # An attempt runs below the span that its record names. Where the program has an OpenTelemetry SDK, the attempt
  # is a span of it (on_message, on_excise, on_timer): the program's own spans are its children. Before each call the
  # library is told which span the call belongs to. Both are kept by fiber, so that handlers never mix.
  # @private
  module Tracing
    # The W3C form of a span.
    Place = Struct.new(:parent, :state)
    FORM = /\A\h{2}-(\h{32})-(\h{16})-(\h{2})/
    FIBER = :prosody_trace
    THREAD = :prosody_entered
    private_constant :FORM, :FIBER, :THREAD

    @on = false # whether any span was ever seen: before, nothing here costs anything

    class << self
      # The OpenTelemetry API, where the program has set up an SDK.
      def api
        ::OpenTelemetry if defined?(::OpenTelemetry::SDK) && defined?(::OpenTelemetry::Trace)
      end

      # Tells the library the span that the next call of this thread belongs to.
      def enter(library)
        return unless @on || (@on = !api.nil?)

        place = current
        thread = Thread.current
        return if thread.thread_variable_get(THREAD) == place

        thread.thread_variable_set(THREAD, place)
        library.enter(place&.parent, place&.state)
      end

      # Runs an attempt within its span.
      # @param place [Place, nil] what the record names
      def attempt(name, place, attributes, &block)
        return yield unless place || @on || api

        @on = true
        Thread.current[FIBER] = place
        within(name, place, attributes, &block)
      ensure
        Thread.current[FIBER] = nil if @on
      end

      private

      def current
        context = api&.then { |api| api::Trace.current_span.context }
        return Thread.current[FIBER] unless context&.valid?

        flags = context.trace_flags.sampled? ? "01" : "00"
        Place.new("00-#{context.hex_trace_id}-#{context.hex_span_id}-#{flags}", context.tracestate.to_s)
      end

      def within(name, place, attributes, &block)
        span = start(name, place, attributes)
        return yield unless span

        begin
          api::Trace.with_span(span, &block)
        rescue Exception => e # rubocop:disable Lint/RescueException
          failed(span, e)
          raise
        ensure
          span.finish
        end
      end

      # An SDK that fails does no harm: the handler runs without a span.
      def start(name, place, attributes)
        return unless (api = self.api)

        api.tracer_provider.tracer("prosody.handler")
           .start_span(name, with_parent: parent(api, place), attributes: attributes.call)
      rescue StandardError => e
        warn "prosody: no span of #{name}: #{e.class}: #{e.message}"
      end

      def failed(span, error)
        span.record_exception(error)
        span.status = api::Trace::Status.error("#{error.class}: #{error.message}")
      end

      # The context of a span elsewhere; an empty one for none.
      def parent(api, place)
        empty = api::Context.empty
        trace, span, flags = FORM.match(place.parent)&.captures if place
        return empty unless trace

        context = api::Trace::SpanContext.new(
          trace_id: [trace].pack("H*"), span_id: [span].pack("H*"), remote: true,
          trace_flags: api::Trace::TraceFlags.from_byte(flags.hex),
          tracestate: api::Trace::Tracestate.from_string(place.state.to_s)
        )
        api::Trace.context_with_span(api::Trace.non_recording_span(context), parent_context: empty)
      end
    end
  end
  private_constant :Tracing
end
