# frozen_string_literal: true

# What needs a process of its own: its end, forks, signals, the garbage collector. EXITS says how often
# programs end without a shutdown; 200 is the full size.
RSpec.describe "the process" do
  def exits = Integer(ENV.fetch("EXITS", "5"))

  def expect_exit(program, status, times: 1, output: nil)
    times.times do
      text, result = ruby(program)
      expect(result.termsig).to be_nil, text
      expect([result.exitstatus, text]).to match([status, output || anything])
    end
  end

  describe "at its end" do
    it "needs no shutdown", limit: 3600 do
      expect_exit("client.subscribe(Handler.new)", 0, times: exits, output: "")
    end

    it "keeps its exit status", limit: 3600 do
      expect_exit("client.subscribe(Handler.new); exit! 3", 3, times: exits)
      expect_exit("client.subscribe(Handler.new); abort 'bye'", 1, times: exits)
      expect_exit("client.subscribe(Handler.new); raise 'an error'", 1, times: exits)
      expect_exit("client.subscribe(Handler.new); exit 4", 4, times: exits)
    end

    it "survives a creation that failed", limit: 3600 do
      expect_exit(<<~RUBY, 0, times: exits, output: "")
        begin; client(timeout: -1); rescue ArgumentError; end
        begin; Prosody::Client.new; rescue RuntimeError; end
        begin; client(mock: false, bootstrap_servers: "localhost:1", kafka: { "security.protocol" => "ssl", "ssl.ca.location" => "/none" }); rescue RuntimeError; end
      RUBY
    end

    it "runs the program's own ends, before and after" do
      expect_exit(<<~RUBY, 0, output: "2\n1\n")
        made = nil
        at_exit { made.shutdown; puts 1 }
        made = client
        made.subscribe(Handler.new)
        at_exit { made.shutdown; puts 2 }
      RUBY
    end

    it "does not wait for ever for a handler" do
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      expect_exit(<<~RUBY, 0)
        busy = Thread::Queue.new
        handler = Handler.new
        handler.define_singleton_method(:on_message) { |_, _| busy << 1; begin; sleep; rescue Exception; retry; end }
        made = client
        made.subscribe(handler)
        made.send_message("topic", "k", 1)
        busy.pop
      RUBY
      expect(Process.clock_gettime(Process::CLOCK_MONOTONIC) - started).to be < 20
    end

    it "comes when a handler asks for it" do
      expect_exit(<<~RUBY, 7)
        handler = Handler.new
        handler.define_singleton_method(:on_message) { |_, _| exit 7 }
        made = client(retry_base: 60)
        made.subscribe(handler)
        made.send_message("topic", "k", 1)
        sleep 30
      RUBY
    end

    it "writes the last lines of the log" do
      text, = ruby(<<~RUBY)
        Prosody.logger = Logger.new($stderr)
        def (Prosody.logger).add(*) = sleep(0.02) && super
        client.subscribe(Handler.new)
      RUBY
      expect(text).to include("partition given up")
    end

    it "finalizes in any order" do
      expect_exit(<<~RUBY, 0, output: "")
        20.times { client(group_id: "g\#{rand}") ; GC.start }
        Prosody::AdminClient.new("m", mock: true)
      RUBY
    end
  end

  describe "after a fork" do
    it "refuses clients of the parent, and leaves quietly" do
      expect_exit(<<~'RUBY', 0, output: /\A(Prosody::Client cannot be used after fork\. .*\n){6}spec\n0\n\z/)
        made = client
        made.subscribe(Handler.new)
        admin = Prosody::AdminClient.new("m", mock: true)
        pid = fork do
          [-> { made.send_message("t", "k", 1) }, -> { made.shutdown }, -> { made.consumer_state },
           -> { made.subscribe(Handler.new) }, -> { client }, -> { admin.delete_topic("t") }].each do |call|
            call.call
          rescue RuntimeError => e
            puts e.message
          end
          puts made.source_system
          made = admin = nil
          GC.start
        end
        Process.wait(pid)
        puts $?.exitstatus
        made.shutdown
      RUBY
    end

    it "works when nothing was loaded before" do
      expect_exit(<<~RUBY, 0, output: "1\n2\ntrue\n")
        pids = 2.times.map do |i|
          pid = fork { made = client; made.send_message("t", "k", 1); made.shutdown; puts i + 1; $stdout.flush }
          Process.wait(pid)
          $?.success?
        end
        puts pids.all?
      RUBY
    end
  end

  describe "under signals" do
    it "survives handlers that were set after the library was loaded", limit: 200 do
      program = <<~RUBY
        made = client(max_concurrency: 64, max_uncommitted: 256)
        made.subscribe(Handler.new)
        seen = Hash.new(0)
        Signal.trap("USR1") { seen[1] += 1 }
        trap("USR2") { seen[2] += 1 }
        Object.new.instance_eval { trap("INT") { seen[3] += 1 } }
        Kernel.trap("TERM") { seen[4] += 1 }
        stop = false
        senders = 3.times.map { |i| Thread.new { n = 0; made.send_message("topic", "k\#{i}", n += 1) until stop } }
        signals = Process.spawn(RbConfig.ruby, "-e", <<~'INNER', Process.pid.to_s)
          pid = Integer(ARGV[0])
          10_000.times { %w[USR1 USR2 INT TERM].each { |name| Process.kill(name, pid) } }
        INNER
        # The main thread gets the signals: it has to be inside the library.
        large = "x" * 10_000
        10.times { |i| made.send_message("topic", "m\#{i}", large) } until Process.wait(signals, Process::WNOHANG)
        stop = true
        senders.each(&:join)
        made.shutdown
        puts seen.keys.sort.inspect, seen.values.all? { |count| count > 50 }
      RUBY
      text, status = ruby(program, seconds: 150)
      expect([status.termsig, text]).to eq([nil, "[1, 2, 3, 4]\ntrue\n"])
    end

    it "has its handlers on the stack for signals" do
      expect_exit(<<~RUBY, 0, output: "1111\n")
        client
        c = Module.new do
          extend FFI::Library
          ffi_lib "c"
          attach_function :sigaction, %i[int pointer pointer], :int
        end
        {
          "USR1" => -> { Signal.trap("USR1") {} }, "USR2" => -> { trap("USR2") {} },
          "INT" => -> { Object.new.instance_eval { trap("INT") {} } }, "TERM" => -> { Kernel.trap("TERM") {} }
        }.each do |name, set|
          set.call
          old = FFI::MemoryPointer.new(256)
          c.sigaction(Signal.list[name], nil, old)
          print old.get_uint32(136)[27]
        end
        puts
      RUBY
    end

    {
      "a send" => "client(**#{Helpers::NOWHERE}, send_timeout: 30).send_message('t', 'k', 1)",
      "an idle consumer" => "client.subscribe(Handler.new); sleep 30",
      "a handler" => "handler = Handler.new; handler.define_singleton_method(:on_message) { |_, _| sleep 30 }; " \
                     "made = client(shutdown_timeout: 1); made.subscribe(handler); " \
                     'made.send_message("topic", "k", 1); made.shutdown; sleep 30'
    }.each do |what, program|
      it "is interrupted at once while it waits for #{what}", real: what == "a send" do
        text, status = ruby(<<~RUBY)
          Thread.new { sleep 0.7; Process.kill("INT", Process.pid) }
          begin
            #{program}
          rescue Interrupt
            puts "interrupted"
          end
        RUBY
        expect(text).to include("interrupted")
        expect(status).to be_success
      end
    end

    it "ends by TERM as usual" do
      text, status = ruby('client.subscribe(Handler.new); Process.kill("TERM", Process.pid); sleep 30')
      # `timeout` passes the signal's number on as its own status
      expect([status.exitstatus || (128 + status.termsig), text]).to match([143, /SIGTERM|\A\z/])
    end
  end

  describe "under the garbage collector" do
    it "survives its stress, with traffic", limit: 300 do
      text, status = ruby(<<~RUBY, seconds: 280)
        done = Thread::Queue.new
        handler = Handler.new
        handler.define_singleton_method(:on_message) { |_, message| done << message.payload }
        handler.define_singleton_method(:on_excise) { |_, message| done << message.headers }
        made = client
        made.subscribe(handler)
        handler = nil
        made.send_message("topic", "k", 0)
        done.pop
        GC.stress = true
        5.times { |i| made.send_message("topic", "k\#{i}", { "n" => i }, headers: [["a", "b"]]) }
        made.excise("topic", "k0", headers: [["a", nil]])
        6.times { done.pop }
        client(group_id: "other")
        GC.start
        GC.stress = false
        made.shutdown
        puts "done"
      RUBY
      expect([status.termsig, text.lines.last]).to eq([nil, "done\n"])
    end

    it "survives many clients that are forgotten amid their work" do
      expect_exit(<<~RUBY, 0, output: "done\n")
        40.times do |i|
          made = client(group_id: "g\#{i}")
          made.subscribe(Handler.new)
          made.send_message("topic", "k", i)
          made = nil
          GC.start if i % 5 == 0
        end
        puts "done"
      RUBY
    end
  end

  it "loads nothing before the first client" do
    expect_exit('puts File.read("/proc/self/maps").include?("libprosody")', 0, output: "false\n")
  end

  it "says how to get the library when there is none" do
    expect_exit(<<~RUBY, 0, output: /looked for .none.*make build.*PROSODY_LIBRARY/)
      ENV["PROSODY_LIBRARY"] = "/none"
      begin; client; rescue LoadError => e; puts e.message; end
    RUBY
    expect_exit(<<~RUBY, 0, output: /does not belong to this gem/)
      ENV["PROSODY_LIBRARY"] = File.realpath(Dir["/lib/*/libm.so.6"].first)
      begin; client; rescue LoadError => e; puts e.message; end
    RUBY
  end
end
