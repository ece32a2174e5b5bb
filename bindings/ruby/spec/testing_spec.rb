# frozen_string_literal: true

require "prosody/testing/rspec"
require "tmpdir"

RSpec.describe Prosody::Testing do
  day = 24 * 3600
  seen = Prosody.message_deque("seen")
  total = Prosody.value("total")
  lines = Prosody.map("lines")
  kept = { state_collections: [total, lines] }

  # Sends one letter for all that came within 24 hours of the first message of a key.
  window = Class.new(Prosody::EventHandler) do
    define_method(:initialize) do |client|
      super()
      @client = client
    end

    define_method(:on_message) do |context, message|
      deque = context.state(seen)
      context.schedule(message.timestamp + day) if deque.empty?
      deque.push(message)
    end

    define_method(:on_excise) do |context, _message|
      context.state(seen).clear
      context.clear_scheduled
    end

    define_method(:on_timer) do |context, timer|
      numbers = context.state(seen).each.map { |message| message.payload["n"] }
      @client.send_message("letters", timer.key, { numbers: })
      context.state(seen).clear
    end
  end

  # Sums up, and fails as the payload says.
  totals = Class.new(Prosody::EventHandler) do
    permanent :on_message, KeyError
    attr_reader :attempts, :entered

    define_method(:initialize) do
      super()
      @attempts = 0
      @entered = Thread::Queue.new
    end

    define_method(:on_message) do |context, message|
      @attempts += 1
      if message.payload["wait"] && @attempts == 1
        @entered << true
        sleep
      end
      message.payload.fetch("n")
      context.state(total).set((context.state(total).get || 0) + message.payload["n"])
      context.state(lines).set(message.offset.to_s, message.payload)
    end

    define_method(:on_excise) { |context, _message| context.state(total).clear }
    define_method(:on_timer) { |_context, _timer| raise NotImplementedError }
  end

  define_method(:letters) do |service|
    [1, 2, 3].each { |n| service.send_message("orders", "customer", { n: }) }
    service.advance(day - 5)
    expect(service.sent("letters")).to eq([])
    expect(service.state(seen).each("customer").map { |message| message.payload["n"] }).to eq([1, 2, 3])
    service.advance(10)
    expect(service.sent("letters").map(&:payload)).to eq([{ "numbers" => [1, 2, 3] }])
  end

  it "tests a window" do
    service = prosody_service(window.method(:new), topics: "orders", state_collections: [seen])
    letters(service)
    service.send_message("orders", "customer", { n: 4 })
    service.send_message("orders", "other", { n: 5 })
    service.excise("orders", "other")
    service.advance(day + 1)
    sent = service.sent("letters")
    expect(sent.map(&:payload)).to eq([{ "numbers" => [1, 2, 3] }, { "numbers" => [4] }])
    expect(sent.map(&:key)).to eq(%w[customer customer])
    expect(sent.first.source_system).to eq("test")
    expect(service.now - sent.last.timestamp).to be_between(-1, 60)
  end

  it "tests a windowed handler in less than 50 ms" do
    quick = 200.times.any? do
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      described_class::Service.open(window.method(:new), topics: "orders", state_collections: [seen]) do |service|
        letters(service)
      end
      Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < 0.05
    end
    expect(quick).to be(true) # others share the machine
  end

  it "reads what is committed, also after a restart" do
    service = prosody_service(totals.new, topics: %w[orders more], **kept)
    service.send_message("orders", "a", { n: 1 })
    service.send_message("orders", "a", { n: 2 })
    service.send_message("more", "a", { n: 10 })
    service.idle
    expect(service.state(total).get("a")).to eq(3)
    expect(service.state(total, "more").get("a")).to eq(10)
    expect(service.state(total).get("b")).to be_nil
    expect(service.state(lines).each_key("a").to_a).to eq(%w[0 1])
    service.restart
    service.send_message("orders", "a", { n: 4 })
    service.idle
    expect(service.state(total).get("a")).to eq(7)
    service.excise("orders", "a")
    service.idle
    expect(service.state(total).get("a")).to be_nil
    expect { service.state("total") }.to raise_error(TypeError)
  end

  it "makes calls fail" do
    handler = totals.new
    service = prosody_service(handler, topics: "orders", timeout_s: 1, **kept)
    service.fail(:write, "a", times: 2)
    service.send_message("orders", "a", { n: 1 })
    service.idle
    expect([service.state(total).get("a"), handler.attempts]).to eq([1, 1])
    service.fail(:read, "a")
    expect { service.state(total).get("a") }.to raise_error(Prosody::TransientStateError, /as the test wants/)
    service.fail(:broker) do
      expect { service.send_message("orders", "a", { n: 1 }) }.to raise_error(Prosody::CallError, /as the test wants/)
    end
    service.fail(:consume) do
      service.send_message("orders", "a", { n: 1 })
      expect { service.idle }.to raise_error(Prosody::CallError, /1 records wait in orders:/)
    end
    eventually { service.state(total).get("a") == 2 }
    service.fail("write", times: 0)
    expect { service.fail(:nothing) }.to raise_error(ArgumentError, /expected one of :read/)
    expect { service.fail(:write, times: "x") }.to raise_error(ArgumentError, /times/)
  end

  %i[revoke lose].each do |how|
    it "cancels a handler by #{how}" do
      handler = totals.new
      service = prosody_service(handler, topics: "orders", shutdown_timeout: 0.2, **kept)
      service.send_message("orders", "a", { n: 1, wait: 1 })
      handler.entered.pop
      service.public_send(how)
      service.idle
      expect(handler.attempts).to eq(2)
      expect(service.state(total).get("a")).to eq(1)
    end
  end

  it "shows dead letters" do
    service = prosody_service(totals.new, topics: "orders", mode: "low-latency", failure_topic: "dead", **kept)
    service.send_message("orders", "a", { bad: 1 }, headers: { "x" => "\xFF".b })
    service.idle
    service.excise("dead", "gone")
    letter, gone = service.dead_letters
    expect([letter.key, letter.payload]).to eq(["a", { "bad" => 1 }])
    expect(letter.headers).to include(["x", "\xFF".b])
    expect(gone).to be_a(Prosody::ExciseMessage)
    expect { prosody_service(totals.new, topics: "t").dead_letters }.to raise_error(ArgumentError, /no failure_topic/)
  end

  it "shows records of any number and size" do
    service = prosody_service(totals.new, topics: "orders")
    payloads = Array.new(300) { |n| (n % 50).zero? ? "x" * 90_000 : n }
    payloads.each_with_index { |payload, n| service.send_message("out", (n % 7).to_s, payload) }
    expect(service.sent("out").map(&:payload)).to eq(payloads)
    expect(service.sent("nothing")).to eq([])
  end

  it "makes the handler of a class, and refuses what is none" do
    service = prosody_service(window, topics: "orders", state_collections: [seen], timeout: 7)
    expect(service.handler).to be_a(window)
    letters(service)
    expect(prosody_service(totals, topics: "orders").handler).to be_a(totals)
    [nil, 5, Object.new].each do |wrong|
      expect { prosody_service(wrong, topics: "orders") }.to raise_error(ArgumentError, /handler must be an EventHandler/)
    end
  end

  it "forgets all when it closes" do
    service = prosody_service(totals.new, topics: "orders")
    servers = service.instance_variable_get(:@servers)
    expect { Prosody::Mock.forget(servers) }.to raise_error(Prosody::CallError, /1 clients .* are open/)
    2.times { service.close }
    expect { Prosody::Mock.records(servers, "orders") }.to raise_error(ArgumentError, /no client in mock mode/)
  end

  it "leaves nothing when it cannot start" do
    expect(described_class::Service).to receive(:unique).and_return("cannot")
    expect { prosody_service(totals.new, topics: "orders", mode: "low-latency") }
      .to raise_error(Prosody::CallError, /failure_topic/)
    expect { Prosody::Mock.records("cannot", "orders") }.to raise_error(ArgumentError, /no client in mock mode/)
  end

  it "works with minitest" do
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "user_test.rb"), <<~RUBY)
        require "minitest/autorun"
        require "prosody/testing/minitest"
        Prosody.logger = Logger.new(File::NULL)

        class Nothing < Prosody::EventHandler
          def on_message(_context, _message); end
          alias on_excise on_message
          alias on_timer on_message
        end

        class UserTest < Minitest::Test
          include Prosody::Testing::Minitest
          Minitest.after_run { puts "closed: \#{@@service.client.nil?}" }

          def test_it
            @@service = prosody_service(Nothing.new, topics: "t")
            @@service.send_message("t", "k", 1)
            @@service.idle
            assert_equal [1], @@service.sent("t").map(&:payload)
          end
        end
      RUBY
      output, status = Open3.capture2e(RbConfig.ruby, "-I", Helpers::LIB, File.join(folder, "user_test.rb"))
      expect(status).to be_success, output
      expect(output).to include("1 runs, 1 assertions, 0 failures, 0 errors").and include("closed: true")
    end
  end
end
