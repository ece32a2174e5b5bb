# frozen_string_literal: true

# Plays scenarios.txt by way of Ruby and writes the transcript. See there for the grammar.

require "json"
require "prosody"

Prosody.logger = Logger.new(File::NULL)
COLLECTIONS = {
  "v" => Prosody.value("v", published: true, read_cache: false), "m" => Prosody.map("m"), "s" => Prosody.set("s"),
  "d" => Prosody.deque("d", capacity: 3), "last" => Prosody.message_value("last")
}.freeze
MAKERS = { "v" => :value, "m" => :map, "s" => :set, "d" => :deque }.freeze
TOPIC = "scenarios"
ERRORS = { Prosody::HandlerError => "handler", Prosody::Timeout => "timeout" }.freeze
# How a handler is stopped: a thread, or a fiber of the gem async.
STOPPED = [Prosody::Cancelled, *(Async::Stop if defined?(Async::Stop))].freeze

# What a script wants to fail with.
class Wanted < StandardError
  def initialize(permanent)
    super("as the script wants")
    @permanent = permanent
  end

  def permanent?
    @permanent
  end
end

# Notes what happens, by key.
class Transcript
  def initialize
    @lines = Hash.new { |lines, key| lines[key] = [] }
    @ended = Hash.new(0)
    @lock = Mutex.new
    @changed = ConditionVariable.new
  end

  def note(key, text)
    @lock.synchronize { @lines[key] << text }
  end

  def ended(key, text)
    @lock.synchronize do
      @lines[key] << text
      @ended[key] += 1
      @changed.broadcast
    end
  end

  def wait(key, count)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
    @lock.synchronize do
      while @ended[key] < count
        left = limit - Process.clock_gettime(Process::CLOCK_MONOTONIC)
        abort "#{key}: #{@ended[key]} of #{count} attempts: #{@lines}" if left <= 0
        @changed.wait(@lock, left)
      end
    end
  end

  def print
    main = @lines.delete("main") || []
    @lines.delete("-")
    [["main", main], *@lines.sort].each { |key, lines| lines.each { |line| puts "> #{key}: #{line}" } }
    $stdout.flush
  end
end

# What the commands do with a collection, and give.
READS = {
  "get" => ->(state, *) { state.get },
  "recall" => ->(state, *) { state.get },
  "at" => ->(state, key, _) { state.get(key) },
  "has" => ->(state, key, _) { state.include?(key) },
  "commit" => ->(state, *) { state.commit },
  "rollback" => ->(state, *) { state.rollback },
  "pop" => ->(state, *) { state.pop },
  "shift" => ->(state, *) { state.shift },
  "peek" => ->(state, *) { state.last },
  "item" => ->(state, index, _) { state.get(Integer(index)) },
  "size" => ->(state, *) { state.size },
  "keys" => ->(state, *) { state.each_key.to_a },
  "back" => ->(state, *) { state.reverse_each_key.to_a },
  "pairs" => ->(state, *) { state.each_pair.to_a },
  "members" => ->(state, *) { state.each.to_a },
  "items" => ->(state, *) { state.each.to_a }
}.freeze
CHANGES = {
  "set" => ->(state, value, _) { state.set(JSON.parse(value)) },
  "keep" => ->(state, _, event) { state.set(event) },
  "clear" => ->(state, *) { state.clear },
  "put" => ->(state, pair, _) { pair.split(" ", 2).then { |key, value| state.set(key, JSON.parse(value)) } },
  "remove" => ->(state, key, _) { state.delete(key) },
  "add" => ->(state, member, _) { state.add(member) },
  "discard" => ->(state, member, _) { state.delete(member) },
  "push" => ->(state, item, _) { state.push(JSON.parse(item)) },
  "unshift" => ->(state, item, _) { state.unshift(JSON.parse(item)) }
}.freeze

# Runs the scripts.
class Player < Prosody::EventHandler
  def initialize(transcript, began, scripts)
    super()
    @transcript = transcript
    @began = began
    @scripts = scripts
    @attempts = Hash.new(0)
  end

  def on_message(context, message)
    play(context, message, "message", message.payload["do"], [message.partition, message.offset])
  end

  def on_excise(context, message)
    play(context, message, "excise", @scripts["excise"], [message.partition, message.offset])
  end

  def on_timer(context, timer)
    play(context, timer, "timer +#{timer.time.to_i - @began}", @scripts["timer"], [timer.key, timer.time.to_i])
  end

  private

  def play(context, event, kind, script, id)
    attempt = @attempts[id] += 1
    demand = context.demand
    asked = " asked" if event.respond_to?(:response_requested?) && event.response_requested?
    @transcript.note(event.key, "#{kind} #{demand.kind} #{demand.retries}#{asked}")
    result = nil
    script.to_s.split(";").map(&:strip).each { |line| result = step(context, event, line, attempt) }
    @transcript.ended(event.key, "ok")
    result
  rescue Wanted => e
    @transcript.ended(event.key, "failed #{e.permanent? ? 'permanent' : 'transient'}")
    raise
  rescue *STOPPED
    @transcript.ended(event.key, "failed transient")
    raise
  end

  def step(context, event, line, attempt)
    command, *words = line.split(" ", 3)
    case command
    when "fail" then fail_first(event, words, attempt)
    when "linger", "hang" then hang(event, command == "linger")
    when "return" then return JSON.parse(line.delete_prefix("return "))
    when "schedule", "replace", "lasting", "unschedule" then change(context, event, command, words.first)
    else
      answer = perform(context, event, command, words)
      @transcript.note(event.key, answer == :none ? line : "#{line} -> #{answer}")
    end
    nil
  end

  def fail_first(event, (count, how), attempt)
    return if attempt > count.to_i

    how == "hang" ? hang(event, false) : raise(Wanted, how == "permanent")
  end

  def hang(event, linger)
    sleep 60
  rescue *STOPPED
    @transcript.note(event.key, "cancelled")
    raise unless linger
  end

  def change(context, event, command, second)
    case command
    when "schedule" then context.schedule(at(second))
    when "replace" then context.clear_and_schedule(at(second))
    when "lasting" then context.schedule(at(second), immediate: true)
    else second == "all" ? context.clear_scheduled : context.unschedule(at(second))
    end
    @transcript.note(event.key, second == "all" ? "#{command} all" : "#{command} +#{second}")
  end

  def at(second)
    Time.at(@began + second.to_i)
  end

  def perform(context, event, command, words)
    case command
    when "say" then return :none
    when "scheduled" then return JSON.generate(context.scheduled.map { |time| time.to_i - @began })
    end
    name, rest = words
    state = context.state(definition(command, name))
    value = (READS[command] || CHANGES.fetch(command)).call(state, rest, event)
    READS.key?(command) ? text(value, command) : :none
  rescue Prosody::PermanentError
    "error permanent"
  rescue Prosody::TransientError
    "error transient"
  end

  # The definition by which a command asks for a collection; of another kind than its own when that does not fit.
  def definition(command, name)
    kind = { "at" => "m", "put" => "m", "push" => "d", "get" => "v" }[command]
    return COLLECTIONS.fetch(name) if kind.nil? || kind == name

    Prosody.public_send(MAKERS.fetch(kind), name)
  end

  def text(value, command)
    return value.to_s if %w[commit rollback].include?(command)

    value.is_a?(Prosody::Message) ? value.payload["do"] : JSON.generate(value)
  end
end

# Plays one scenario.
class Scenario
  def initialize(name)
    @name = name
    @servers = "scenario-#{name}"
    @scripts = {}
    @options = []
    @transcript = Transcript.new
    @began = Time.now.to_i
  end

  def play(line)
    command, rest = line.split(" ", 2)
    case command
    when "option" then option(*rest.split(" ", 2))
    when "on" then rest.split(" ", 2).then { |kind, script| @scripts[kind] = script }
    else
      begin_once
      run(command, rest.to_s)
    end
  end

  def finish
    @client.shutdown
    @other&.shutdown
    puts "scenario #{@name}"
    @transcript.print
    @options.each { |name| ENV.delete(name) }
  end

  private

  def option(name, value)
    @options << "PROSODY_#{name.upcase}"
    ENV[@options.last] = value
  end

  def begin_once
    return if @client

    @client = Prosody::Client.new(mock: true, bootstrap_servers: @servers, group_id: "group", source_system: "scenarios",
                                  subscribed_topics: TOPIC, subsystem: "scenarios", state_collections: COLLECTIONS.values)
    @client.subscribe(player)
  end

  def player
    Player.new(@transcript, @began, @scripts)
  end

  def run(command, rest)
    key, script = rest.split(" ", 2)
    case command
    when "send", "many", "repeat", "excise" then produce(command, key, script)
    when "wait" then @transcript.wait(key, script.to_i)
    when "advance" then Prosody::Mock.advance(key.to_i, @servers)
    when "request", "erase" then request(command, key, *script.split(" ", 3))
    when "read" then @transcript.note("main", "read #{key} -> #{JSON.generate(reader.get(key))}")
    when "state" then @transcript.note("main", "state #{@client.consumer_state}")
    when "subscribe" then attempt(command) { @client.subscribe(player) }
    when "unsubscribe", "shutdown" then attempt(command) { @client.public_send(command) }
    else abort "unknown step #{command}"
    end
  end

  def produce(command, key, script)
    case command
    when "send" then attempt(command) { @client.send_message(TOPIC, key, { do: script }) }
    when "many" then many(key, *script.split(" ", 2))
    when "repeat" then repeat(key, *script.split(" ", 2))
    else attempt(command) { @client.excise(TOPIC, key) }
    end
  end

  def many(key, count, script)
    count.to_i.times { @client.send_message(TOPIC, key, { do: script }) }
  end

  def request(command, key, seconds, names, script = "")
    asked = { topic: TOPIC, key:, subsystems: names.split(","), timeout: seconds.to_f }
    asked[:payload] = { do: script } if command == "request"
    outcomes = @client.public_send(command == "request" ? :request : :request_excise, **asked)
    names.split(",").each do |name|
      outcome = outcomes.fetch(name)
      answer = outcome.is_a?(Prosody::Success) ? JSON.generate(outcome.value) : "failure #{ERRORS.fetch(outcome.error.class)}"
      @transcript.note("main", "#{command} #{key} #{name} -> #{answer}")
    end
  end

  def repeat(key, id, script)
    @other ||= Prosody::Client.new(mock: true, bootstrap_servers: @servers, source_system: "other", idempotence_cache_size: 1)
    @other.send_message(TOPIC, key, { id:, do: script })
    @other.send_message("elsewhere", key, { id: "forget", do: "" }) # its own memory of ids is no part of the story
  end

  def reader
    @client.state("scenarios", COLLECTIONS["v"])
  end

  def attempt(name)
    yield
  rescue Prosody::CallError => e
    @transcript.note("main", "#{name} refused #{e.status}")
  end
end

current = nil
File.foreach(ARGV.fetch(0), chomp: true) do |line|
  next if line.empty? || line.start_with?("#", ">")

  if line.start_with?("scenario ")
    current&.finish
    current = Scenario.new(line.delete_prefix("scenario "))
  else
    current.play(line)
  end
end
current.finish
