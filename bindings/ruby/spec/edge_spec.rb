# frozen_string_literal: true

require "json"
require "net/http"
require "tmpdir"

# Hosts at the edge: preloading servers, threads that must go on, callers that are interrupted, many
# calls. CALLS says how many; 1000000 is the full size.
RSpec.describe "a host at the edge" do
  describe "a preloading server" do
    let(:application) do
      <<~'RUBY'
        require "prosody"
        class Quiet < Prosody::EventHandler
          def on_message(_context, _message); end
          def on_excise(_context, _message); end
          def on_timer(_context, _timer); end
        end
        LOCK = Mutex.new
        def client
          LOCK.synchronize do
            $client ||= Prosody::Client.new(mock: true, bootstrap_servers: "m", group_id: "g", source_system: "s",
                                            subscribed_topics: "t").tap { |made| made.subscribe(Quiet.new) }
          end
        end
        APPLICATION = lambda do |_|
          client.send_message("t", "k", 1)
          [200, {}, ["sent by #{Process.pid}"]]
        rescue RuntimeError => e
          [500, {}, ["#{e.message} #{Process.pid}"]]
        end
      RUBY
    end

    # Runs Puma with two workers that were forked after the application was loaded.
    def puma(source)
      Dir.mktmpdir do |folder|
        File.write("#{folder}/config.ru", "#{source}\nrun APPLICATION\n")
        port = TCPServer.open("127.0.0.1", 0) { |free| free.addr[1] }
        command = ["puma", "--preload", "-w", "2", "-t", "2:2", "-b", "tcp://127.0.0.1:#{port}", "config.ru"]
        output, write = IO.pipe
        pid = Process.spawn({ "RUBYLIB" => Helpers::LIB }, *command, chdir: folder, %i[out err] => write)
        write.close
        begin
          yield port
          Process.kill("TERM", pid)
        rescue Exception # rubocop:disable Lint/RescueException
          Process.kill("KILL", pid)
          raise
        ensure
          _, status = Process.wait2(pid)
        end
        [status, output.read]
      end
    end

    def ask(port)
      answer = Net::HTTP.start("127.0.0.1", port, read_timeout: 60) do |http|
        http.get("/", "Connection" => "close")
      end
      [answer.code, answer.body]
    rescue Errno::ECONNREFUSED
      sleep 0.05
      retry
    end

    # The answers of both workers.
    def both(port)
      answers = Set.new
      patiently(60) { answers << ask(port) until answers.size == 2 }
      answers
    end

    it "has a client in each worker, and ends by TERM" do
      answers = nil
      status, output = puma(application) { |port| answers = both(port) }
      expect(answers.map(&:first)).to eq(%w[200 200])
      expect(output).not_to match(/\[BUG\]|fatal error|panic/)
      expect(status.termsig || (status.exitstatus - 128)).to(satisfy { |number| [15, -128].include?(number) })
    end

    it "refuses a client that was made before the fork" do
      answers = nil
      puma("#{application}\nclient") { |port| answers = both(port) }
      expect(answers).to all(match(["500", /cannot be used after fork. Create a new/]))
    end
  end

  describe "the other threads" do
    # The longest pause of a thread that wakes often, in seconds.
    def pause
      worst = 0
      last = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      ticker = Thread.new do
        loop do
          sleep 0.02
          now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          worst = [worst, now - last].max
          last = now
        end
      end
      yield
      worst
    ensure
      ticker.kill
    end

    it "go on while a call waits", real: true do
      waits = {
        "create" => -> { client(mock: false, bootstrap_servers: "localhost:1", cassandra_nodes: "localhost:1") },
        "send" => -> { client(**Helpers::NOWHERE, send_timeout: 3).send_message("t", "k", 1) },
        "shutdown" => lambda {
          made = consume(Recorder.new(message: ->(_, _) { sleep 3 }))
          made.send_message(topic, "k", 1)
          made.shutdown
        }
      }
      waits.each do |name, wait|
        elapsed = nil
        worst = pause do
          began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          begin
            wait.call
          rescue RuntimeError
            nil
          end
          elapsed = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
        end
        expect([name, worst < [1.5, elapsed * 0.8].max]).to eq([name, true]), "#{name}: #{worst} of #{elapsed} s"
      end
    end
  end

  describe "callers that are interrupted" do
    # Interrupts a call a little after it began, in one of three ways.
    def disturb(turn, call)
      after = 0.0003 * (turn % 5)
      case turn % 3
      when 0 then Timeout.timeout(after + 0.0001) { call.call }
      else
        thread = Thread.new { call.call }
        thread.report_on_exception = false
        sleep after
        turn % 3 == 1 ? thread.kill : thread.raise(IOError, "from another thread")
        patiently { thread.join }
      end
    rescue Timeout::Error, IOError, Prosody::CallError, ArgumentError
      nil
    end

    it "leave a client that works, in a thousand turns" do
      made = client
      admin = Prosody::AdminClient.new("mock", mock: true)
      recorder = Recorder.new
      calls = [-> { made.send_message(topic, "k", 1) }, -> { made.excise(topic, "k") }, -> { made.subscribe(recorder) },
               -> { made.unsubscribe }, -> { made.consumer_state }, -> { made.assigned_partitions },
               -> { made.stalled? }, -> { admin.create_topic("passing") }, -> { admin.delete_topic("passing") }]
      1000.times { |turn| disturb(turn, calls[turn % calls.size]) }
      40.times { |turn| disturb(turn, -> { client(group_id: "other").shutdown }) }
      begin
        made.unsubscribe
      rescue RuntimeError
        nil
      end
      last = Recorder.new
      made.subscribe(last)
      made.send_message(topic, "last", 1)
      patiently { nil until last.calls.pop.key == "last" }
      runtime = Prosody.const_get(:Runtime).current
      eventually { runtime.port.instance_variable_get(:@pending).empty? }
    end

    it "leave an attempt that works, in calls of timers and state" do
      value = Prosody.value("v")
      map = Prosody.map("m")
      deque = Prosody.deque("d")
      recorder = Recorder.new
      outcome = within(recorder, state_collections: [value, map, deque]) do |context|
        calls = [-> { context.schedule(Time.now + 3600, immediate: true) }, -> { context.scheduled },
                 -> { context.clear_scheduled }, -> { context.state(value).set(1) }, -> { context.state(value).get },
                 -> { context.state(value).commit }, -> { context.state(map)["a"] = 1 }, -> { context.state(map)["a"] },
                 -> { context.state(deque).push(1) }, -> { context.state(deque).pop }]
        200.times { |turn| disturb(turn, calls[turn % calls.size]) }
        context.state(value).set("still here")
        context.state(value).get
      end
      expect(outcome).to eq("still here")
      expect(within(recorder) { |context| context.state(value).get }).to eq("still here")
    end
  end

  it "has no memory of its calls", limit: 7200 do
    text, status = ruby(<<~'RUBY', ENV.fetch("CALLS", "2000"), seconds: 7000)
      require "json"
      CALLS = Integer(ARGV.fetch(0))
      LOG = 64 << 20
      V, M, D = Prosody.value("v", published: true, read_cache: false), Prosody.map("m"), Prosody.deque("d")
      Prosody.logger = Logger.new(File::NULL)

      class Work < Prosody::EventHandler
        attr_accessor :inside
        attr_reader :done
        def initialize = (super; @done = Thread::Queue.new)
        def on_message(context, message)
          100.times { @inside.call(context) } if @inside
          raise Prosody::PermanentError, "as the test wants" if message.key == "bad"
        ensure
          @done << 1
        end
        alias on_excise on_message
        def on_timer(_context, _timer); end
      end

      def resident = File.read("/proc/self/statm").split[1].to_i * 4096

      PAD = "x" * 400 # so that the log of mock mode is full before a million records
      work = Work.new
      admin = Prosody::AdminClient.new("mock", mock: true)
      admin.create_topic("topic", 1)
      made = client(state_collections: [V, M, D], subsystem: "sub")
      made.subscribe(work)
      reader = made.state("sub", V)
      RUNTIME = Prosody.const_get(:Runtime).current
      STATS = Module.new do
        extend FFI::Library
        ffi_lib_flags :now, :local
        ffi_lib Prosody.const_get(:Place).find
        attach_function :prosody_client_stats, %i[pointer pointer size_t pointer pointer], :int32
      end
      HANDLE = made.instance_variable_get(:@core).instance_variable_get(:@handle)

      def handles
        buffer, size = FFI::MemoryPointer.new(1 << 17), FFI::MemoryPointer.new(:size_t)
        raise "stats" unless STATS.prosody_client_stats(HANDLE, buffer, 1 << 17, size, nil).zero?

        JSON.parse(buffer.get_bytes(0, size.get(:size_t, 0)))["library"]
      end

      events = ->(count) { count.times { work.done.pop } }
      inside = lambda do |&body|
        work.inside = body
        made.send_message("topic", "k", PAD)
        events.(1)
        work.inside = nil
      end
      kinds = {
        "sends" => [100, 1200, -> { 100.times { made.send_message("topic", "k", PAD) }; events.(100) }],
        "failures" => [100, 1200, -> { 100.times { made.send_message("topic", "bad", PAD) }; events.(100) }],
        "excises" => [100, 1200, -> { 100.times { made.excise("topic", "k") }; events.(100) }],
        "asks" => [100, 0, -> { 100.times { made.consumer_state; made.assigned_partitions; made.stalled? } }],
        "refused" => [100, 0, -> { 100.times { made.send_message("topic", 1, 1) rescue nil; made.send_message("topic", "k", Object.new) rescue nil } }],
        "reads" => [100, 0, -> { 100.times { reader.get("k"); made.state("sub", V) } }],
        "timers" => [100, 0, -> { inside.() { |c| t = Time.now + 3600; c.schedule(t); c.scheduled; c.unschedule(t) } }],
        "state" => [100, 0, lambda {
          inside.() do |c|
            v, m, d = [V, M, D].map { |one| c.state(one) }
            v.set(1); v.get; m["a"] = 1; m["a"]; d.push(1); d.shift
          end
        }],
        "clients" => [1, 0, lambda {
          client(group_id: "other").shutdown
          made.unsubscribe; made.subscribe(work)
          admin.create_topic("passing"); admin.delete_topic("passing")
        }]
      }
      collect = -> { 2.times { GC.start } }
      kinds.each_value { |_, _, kind| kind.() }
      collect.()
      first = handles
      kinds.each do |name, (each, log, kind)|
        began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        half = [CALLS / 2 / 100, 1].max
        half.times { kind.() }
        collect.()
        before = resident
        half.times { kind.() }
        collect.()
        grown = resident - before
        share = half * each
        $stdout.puts format("%-10s %8d calls %6.1f s, %+6d KiB in the second half", name, 2 * share,
                            Process.clock_gettime(Process::CLOCK_MONOTONIC) - began, grown >> 10)
        $stdout.flush
        abort "#{name} grows" if grown > (16 << 20) + (share * 400 < LOG ? share * log : 0)
        limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
        until handles == first
          abort "#{name} leaves #{handles}, not #{first}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
          collect.()
          sleep 0.05
        end
        abort "#{name} leaves calls" unless RUNTIME.port.instance_variable_get(:@pending).empty?
      end
      made.shutdown
      puts "nothing left"
    RUBY
    warn text if ENV["CALLS"]
    expect([status.termsig, text.lines.last]).to eq([nil, "nothing left\n"]), text
  end
end
