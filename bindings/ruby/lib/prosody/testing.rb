# frozen_string_literal: true

require "prosody"

module Prosody
  # Tests of handlers. prosody/testing/rspec and prosody/testing/minitest make services that close by themselves.
  module Testing
    # A client in mock mode that has subscribed, alone with its broker, store and clock. It needs no server, opens no
    # socket and never sleeps.
    #
    #   Prosody::Testing::Service.open(Reminders.new, topics: "orders") do |service|
    #     service.send_message("orders", "order-1", { total: 12.5 })
    #     service.advance(24 * 3600 + 1)
    #     service.sent("letters").map(&:payload) # => [{ "order" => "order-1" }]
    #   end
    class Service
      @lock = Mutex.new
      @made = 0

      class << self
        # Makes a service, yields it and closes it.
        # @return [Object] the value of the block
        def open(...)
          service = new(...)
          begin
            yield service
          ensure
            service.close
          end
        end

        # @private
        def unique
          "test-#{Process.pid}-#{@lock.synchronize { @made += 1 }}"
        end
      end

      # @return [Client]
      attr_reader :client
      # @return [EventHandler]
      attr_reader :handler

      # @param handler [EventHandler, Class, #call] or what makes one of the client, for handlers that send
      # @param topics [String, Array<String>]
      # @param timeout_s [Numeric] bounds each wait, in seconds of real time
      # @param options [Hash] those of Client
      def initialize(handler, topics:, timeout_s: 10, **options)
        @make = maker(handler)
        @topics = Array(topics)
        @timeout_s = timeout_s
        @servers = Service.unique
        @options = { group_id: "service", source_system: "test", shutdown_timeout: 2 }
                   .merge(options, mock: true, bootstrap_servers: @servers, subscribed_topics: @topics)
        @ahead = 0
        begin
          start
        rescue StandardError
          close
          raise
        end
      end

      # Shuts the client down and forgets all records and state. Again is fine.
      def close
        return unless @client

        @client.shutdown
        @client = nil
        Mock.forget(@servers)
      end

      # Sends a message.
      def send_message(topic, key, payload, headers: nil)
        @client.send_message(topic, key, payload, headers:)
      end

      # Sends an excise record.
      def excise(topic, key, headers: nil)
        @client.excise(topic, key, headers:)
      end

      # Waits until nothing is left to do: all is handled, and nothing is due.
      # @raise [CallError] something is still busy; the text says what
      def idle
        Mock.idle(@servers, timeout: @timeout_s)
      end

      # Lets time pass: when idle, moves the clock; then waits again.
      # @param seconds [Numeric]
      def advance(seconds)
        idle
        Mock.advance(seconds, @servers)
        @ahead += seconds
        idle
      end

      # Shuts the client down and makes a new one; records, state and timers stay.
      def restart
        @client.shutdown
        start
      end

      # @return [Time] by the service's clock
      def now
        Time.now + @ahead
      end

      # The records of a topic, in the order in which they were sent.
      # @return [Array<Message, ExciseMessage>]
      def sent(topic)
        Mock.records(@servers, topic)
      end

      # The records of the failure topic.
      # @return [Array<Message, ExciseMessage>]
      def dead_letters
        sent(@options.fetch(:failure_topic) { raise ArgumentError, "the service has no failure_topic" })
      end

      # What is committed of a collection, by key: service.state(TOTAL).get("key").
      # @param topic [String] the first one by default
      # @return [PublishedValue, PublishedMap, PublishedSet, PublishedDeque]
      def state(definition, topic = @topics.first)
        @client.instance_variable_get(:@core).kept(topic, definition)
      end

      # Makes the next calls of a kind fail; see Mock.fail. With a block: all calls, until it ends.
      def fail(calls, name = nil, times: 1)
        return Mock.fail(@servers, calls, name, times:) unless block_given?

        Mock.fail(@servers, calls, name, times: -1)
        begin
          yield
        ensure
          Mock.fail(@servers, calls, name, times: 0)
        end
      end

      # Takes the partitions away: handlers are asked to stop near the end of shutdown_timeout. They come back, and
      # with them what did not end well.
      def revoke
        Mock.rebalance(@servers, @options[:group_id])
      end

      # Takes the partitions away at once: what handlers still do counts no more.
      def lose
        Mock.rebalance(@servers, @options[:group_id], lost: true)
      end

      private

      def start
        @client = Client.new(@options)
        @handler = @make.call(@client)
        @client.subscribe(@handler)
      end

      def maker(handler)
        case handler
        when EventHandler then ->(_client) { handler }
        when Class then ->(client) { handler.new(*(client if positional?(handler))) }
        else
          return handler if handler.respond_to?(:call)

          raise ArgumentError, "handler must be an EventHandler, or a class or #call that makes one of the client, " \
                               "got #{handler.class}"
        end
      end

      def positional?(type)
        type.instance_method(:initialize).parameters.any? { |kind, _| %i[req opt rest].include?(kind) }
      end
    end

    # For test classes: prosody_service makes services, close_prosody_services ends them.
    module Helper
      # @see Service#initialize
      # @return [Service]
      def prosody_service(handler, **options)
        Service.new(handler, **options).tap { |made| (@prosody_services ||= []) << made }
      end

      # Ends all services that prosody_service has made.
      def close_prosody_services
        services = @prosody_services || []
        @prosody_services = nil
        services.each(&:close)
      end
    end
  end
end
