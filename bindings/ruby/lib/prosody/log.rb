# frozen_string_literal: true

require "json"
require "logger"

module Prosody
  # Hands lines to the logger on a thread of its own, so that a slow logger holds up nothing.
  # @private
  class Log
    LIMIT = 1024
    UNSEEN = /[[:cntrl:]\u2028-\u202e\u2066-\u2069]/
    WAIT = { Object => :on_blocking }.freeze
    private_constant :LIMIT, :UNSEEN, :WAIT

    def initialize
      @lines = Thread::SizedQueue.new(LIMIT)
      @lost = 0
      start
    end

    # Takes a line of the library.
    def line(line)
      severity = line.level < 20 ? Logger::DEBUG : [(line.level / 10) - 1, Logger::ERROR].min
      write(severity, line.target, line.text, fields(line.fields))
    end

    # Takes a line; it is dropped when the logger does not keep up.
    def write(severity, target, text, suffix = "")
      return unless Prosody.logger.level <= severity

      start unless @thread.alive? || @lines.closed?
      @lines.push([severity, target, text + suffix], true)
    rescue StandardError # full, closed, or a logger without a level
      @lost += 1
    end

    # Waits at most so many seconds until all lines are written.
    def close(seconds)
      @lines.close
      @thread.join(seconds)
    end

    private

    def start
      @thread = Thread.new { work }
      @thread.name = "prosody-log"
    rescue ThreadError
      nil # the process is ending
    end

    def work
      while (severity, target, text = take)
        emit(severity, target, text)
        next if @lost.zero?

        lost = @lost
        @lost = 0
        emit(Logger::WARN, "prosody", "#{lost} lines of the log were dropped")
      end
    end

    def take
      Thread.handle_interrupt(WAIT) { @lines.pop }
    end

    # A logger that fails does no harm.
    def emit(severity, target, text)
      Prosody.logger.add(severity, text, target)
    rescue StandardError => e
      warn "prosody: the logger failed: #{e.class}"
    end

    def fields(json)
      return "" if json.empty?

      JSON.parse(json).to_h.map { |name, value| " #{name}=#{plain(value)}" }.join
    rescue StandardError
      " #{json}"
    end

    # A value on one line, so that a key with a line break forges no line of its own.
    def plain(value)
      value.to_s.gsub(UNSEEN) { |found| found.dump[1..-2] }
    end
  end
  private_constant :Log
end
