# frozen_string_literal: true

# A running consumer for many examples. Each works with keys of its own and gets only their calls.
class Stage
  # Hands each event to the recorder of its key.
  class Router < Prosody::EventHandler
    def initialize(stage)
      super()
      @stage = stage
    end

    def on_message(context, message)
      @stage.part_of(message.key).on_message(context, message)
    end

    def on_excise(context, message)
      @stage.part_of(message.key).on_excise(context, message)
    end

    def on_timer(context, timer)
      @stage.part_of(timer.key).on_timer(context, timer)
    end
  end

  attr_reader :client, :topic

  def initialize(world, options)
    @world = world
    @parts = {}
    @client, @topic = world.consumer(Router.new(self), **options)
    world.assigned(@client)
  end

  def part_of(key)
    @parts[key.split("/").first] || Recorder.new
  end

  # A recorder for one example (or the one given), and what makes its keys.
  def part(recorder = nil, **scripts)
    name = @world.name("part")
    recorder = @parts[name] = recorder || Recorder.new(**scripts)
    [recorder, ->(suffix = "key") { "#{name}/#{suffix}" }]
  end

  def send_message(key, payload)
    @client.send_message(@topic, key, payload)
  end
end

# Raised by a step that wants another attempt of the same event.
class Again < Prosody::TransientError; end

# One scripted event: its step, its attempts and how it ended.
class Ticket
  attr_reader :step, :respond
  attr_accessor :attempts

  def initialize(step, respond)
    @step = step
    @respond = respond # whether the handler returns the result of the step
    @attempts = 0
    @lock = Mutex.new
    @changed = ConditionVariable.new
  end

  def done?
    !@outcome.nil?
  end

  def settle(*outcome)
    @lock.synchronize do
      @outcome ||= outcome
      @changed.broadcast
    end
  end

  # The result of the step, or its error.
  def wait(within: WAIT)
    deadline = clock + within
    @lock.synchronize do
      until @outcome
        left = deadline - clock
        raise "deadline passed after #{@attempts} attempts of the event" if left <= 0

        @changed.wait(@lock, left)
      end
    end
    good, value = @outcome
    good ? value : raise(value)
  end
end

# A running consumer whose events run the step that the example handed over with them.
class Lab < Prosody::EventHandler
  # What is caught and settles the ticket; a stop of the handler does not.
  STOPS = [Prosody::Cancelled, *(Async::Stop if defined?(Async::Stop))].freeze

  # A step that gives the whole content of a collection: a value, a hash or a list.
  def self.reader(definition)
    lambda do |context, _|
      handle = context.state(definition)
      case definition.kind
      when "value" then handle.get
      when "map" then handle.each_pair.to_a.to_h
      else handle.each.to_a
      end
    end
  end

  attr_reader :client, :topic, :group, :subsystem, :world, :deliveries

  def initialize(world)
    super()
    @world = world
    @tickets = {}
    @prepared = Hash.new { |all, key| all[key] = [] }
    @serial = 0
    @deliveries = [] # kind, key and payload of each call of the handler
    @lock = Mutex.new
  end

  # In-place retries by default, so that a retry is quick. `subsystem: true` makes a name.
  def open(collections, topic, **overrides)
    @topic = topic
    overrides[:subsystem] = world.name("subsystem") if overrides[:subsystem] == true
    overrides[:group_id] ||= world.name("group")
    @group, @subsystem = overrides.values_at(:group_id, :subsystem)
    @client = world.client(source_system: "conformance", subscribed_topics: topic, defer_enabled: false,
                           state_collections: collections, **overrides)
    @client.subscribe(self)
    world.assigned(@client)
  end

  # A key that no other example uses.
  def key(label = "key")
    "#{label}-#{number}-#{SecureRandom.hex(3)}"
  end

  # Registers the step of a coming event: a number, or [:excise, key] or [:timer, key].
  def expect(where, step, respond: false)
    @lock.synchronize { @tickets[where] = Ticket.new(step, respond) }
  end

  # Registers a step whose result is the response; gives the payload of the request that leads to it, and the ticket.
  def answer(step)
    id = number
    [{ ticket: id }, expect(id, step, respond: true)]
  end

  # Sends a message whose handling runs the step; returns its ticket.
  def start(step, key, **extra)
    id = number
    ticket = expect(id, step)
    @client.send_message(@topic, key, { ticket: id, **extra })
    ticket
  end

  # Sends a step that the next #run or #series of the key finds done.
  def prepare(key, &step)
    @prepared[key] << start(step, key)
  end

  # Runs the step in a message handler. Its result or error (not Again, which retries) comes back.
  def run(key, step = nil, within: WAIT, **extra, &block)
    ticket = start(step || block, key, **extra)
    prepared(key)
    ticket.wait(within:)
  end

  # Sends one message for each step before it waits for the first; the results, errors among them, in order.
  def series(key, *steps)
    tickets = steps.map { |step| start(step, key) }
    prepared(key)
    tickets.map { |ticket| attempt { ticket.wait } }
  end

  # What a later event of the key finds in a collection.
  def read(definition, key)
    run(key, Lab.reader(definition))
  end

  # Runs a step, then reads in later events: the result of the step and what each read found.
  def run_and_read(key, *definitions, &step)
    answers = series(key, step, *definitions.map { |definition| Lab.reader(definition) })
    answers.each { |answer| raise answer if answer.is_a?(Exception) }
    answers
  end

  def on_message(context, message)
    note(:message, message.key, message.payload)
    payload = message.payload.is_a?(Hash) ? message.payload : {}
    play(payload["ticket"], context, message)
  end

  def on_excise(context, message)
    note(:excise, message.key, nil)
    play([:excise, message.key], context, message)
  end

  def on_timer(context, timer)
    note(:timer, timer.key, nil)
    play([:timer, timer.key], context, timer)
  end

  private

  def number
    @lock.synchronize { @serial += 1 }
  end

  def note(*delivery)
    @lock.synchronize { @deliveries << delivery }
  end

  def prepared(key)
    (@prepared.delete(key) || []).each(&:wait)
  end

  def play(where, context, event)
    ticket = @lock.synchronize { @tickets[where] }
    return if ticket.nil? || ticket.done?

    ticket.attempts += 1
    result = ticket.step.call(context, event)
    ticket.settle(true, result)
    ticket.respond ? result : nil
  rescue Again, *STOPS
    raise
  rescue Exception => e # rubocop:disable Lint/RescueException
    ticket.settle(false, e)
    raise if e.is_a?(Prosody::EventHandlerError)

    raise Prosody::PermanentError, "step failed: #{e.inspect}"
  end
end
