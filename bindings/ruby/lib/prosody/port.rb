# frozen_string_literal: true

module Prosody
  # Takes the answers of calls and the lines of the log out of a queue, on a thread of its own.
  #
  # Tables are changed without locks: one step of the interpreter is atomic, and finalizers and
  # signal handlers, which may take no locks, come here too.
  # @private
  class Port
    NEVER = { Object => :never }.freeze
    ITSELF = :itself.to_proc
    private_constant :NEVER, :ITSELF

    def initialize(library, log)
      @library = library
      @log = log
      @channel = Channel.new(library)
      @pending = {}
      @tag = 0
      @ending = false
      start
    end

    # The queue for logs.
    def handle
      @channel.handle
    end

    # Starts a call whose end matters even when nobody waits for it any more.
    # @yield [queue, tag, error] makes the call and returns its status
    # @return [Call]
    def begin(finish, &block)
      Thread.handle_interrupt(NEVER) { launch(Call.new(&finish), @tag += 1, Library.error, &block) }
    end

    # Makes a call and waits for its end. A caller that is interrupted leaves nothing behind.
    # @yield [queue, tag, error] makes the call and returns its status
    # @param give_up [Proc, nil] gets the queue and the tag of a call whose caller was interrupted
    def ask(finish, error = Library.error, give_up: nil, &block)
      tag = (@tag += 1)
      launch(Call.new(&finish), tag, error, &block).wait
    ensure
      left = @pending.delete(tag)
      give_up&.call(@channel.handle, tag) if left
    end

    # Makes a call that often ends at once, and waits for its end when it does not.
    # @yield [queue, tag] makes the call and returns its status
    # @return [Array(Integer, Packed::Completion)] the status, and the answer when it was waited for
    def fetch
      Tracing.enter(@library)
      tag = (@tag += 1)
      call = @pending[tag] = Call.new(&ITSELF)
      status = yield @channel.handle, tag
      return status unless status == Library::PENDING

      start unless @thread.alive? || @ending
      [status, call.wait]
    ensure
      @pending.delete(tag)
    end

    # Takes a record that is no event.
    def take(kind, token, raw)
      case kind
      when Packed::COMPLETION then @pending.delete(token)&.settle(Packed.completion(raw))
      when Packed::LOG then @log.line(Packed.line(raw))
      when Packed::FATAL then poison(Packed.fault(raw))
      end
    end

    # Ends all calls at once.
    def abort(error)
      @pending.keys.each { |tag| @pending.delete(tag)&.abort(error) } # rubocop:disable Style/HashEachMethods
    end

    # From now on the process ends: no thread is started any more.
    def ending
      @ending = true
    end

    private

    def launch(call, tag, error)
      start unless @thread.alive? || @ending
      Tracing.enter(@library)
      @pending[tag] = call
      status = yield @channel.handle, tag, error
      return call if status == Library::PENDING

      @pending.delete(tag)
      raise @library.exception(status, error) unless status == Library::OK

      call.settle(nil) # it has ended at once
      call
    end

    def start
      @thread = Thread.new { work }
      @thread.name = "prosody-port"
    end

    def work
      Thread.handle_interrupt(NEVER) do
        @channel.wait while @channel.drain { |kind, token, raw| take(kind, token, raw) }
        @ending = true # the library answers no more
      end
    ensure
      start unless @ending # it was killed
    end

    def poison(text)
      @log.write(Logger::FATAL, "prosody", "the Prosody library has failed: #{text}")
      abort(CallError.new(text, status: "PROSODY_ERR_POISONED", category: :fatal))
    end
  end
  private_constant :Port
end
