# frozen_string_literal: true

# Which case of the Python suite is which example here. `ruby cases.rb` writes CASES.md anew; a spec checks it.
module Cases
  HERE = __dir__
  TABLE = File.join(HERE, "CASES.md")
  PYTHON = ENV.fetch("PROSODY_CONFORMANCE") { File.expand_path("../../../../shared/conformance", __dir__) }

  SUITES = {
    "test_client.py" => "client_spec.rb", "test_processes.py" => "process_spec.rb", "test_messages.py" => "message_spec.rb",
    "test_records.py" => "record_spec.rb", "test_errors.py" => "error_spec.rb", "test_timers.py" => "timer_spec.rb",
    "state/test_values.py" => "state/value_spec.rb", "state/test_maps.py" => "state/map_spec.rb",
    "state/test_sets.py" => "state/set_spec.rb", "state/test_deques.py" => "state/deque_spec.rb",
    "state/test_messages_in_state.py" => "state/message_spec.rb", "state/test_ttl.py" => "state/ttl_spec.rb",
    "state/test_scans.py" => "state/scan_spec.rb", "state/test_transactions.py" => "state/transaction_spec.rb",
    "state/test_published.py" => "state/published_spec.rb", "state/test_restart.py" => "state/restart_spec.rb",
    "state/test_requests.py" => "state/request_spec.rb",
    "state/test_telemetry.py" => "state/telemetry_spec.rb"
  }.freeze

  # Cases that make no sense in Ruby.
  NONE = {
    "test_client.py: direct construction is refused" => "Prosody::Client.new makes a client and waits for it",
    "test_client.py: results work with create task" => "calls wait for their result; threads run them side by side",
    "test_client.py: results work with gather and ensure future" => "calls wait for their result; threads run them side by side",
    "state/test_scans.py: an unknown direction is a value error" => "the method says the direction: each, reverse_each",
    "state/test_scans.py: concurrent pulls of one scan get each item once" => "an Enumerator belongs to one fiber"
  }.freeze

  module_function

  # @return [Array<String>, nil] "file: case" of the Python suite; nil where that is not at hand
  def python
    return unless File.directory?(PYTHON)

    SUITES.keys.flat_map do |file|
      File.read(File.join(PYTHON, file)).scan(/^(?:async )?def test_(\w+)/).map { |(name)| "#{file}: #{name.tr('_', ' ')}" }
    end
  end

  # @return [Array<String>] "file: case" of this suite; what is in brackets is a parameter
  def ruby
    SUITES.flat_map do |file, spec|
      names = File.read(File.join(HERE, spec)).scan(/^ *it "([^"\[]+?)(?: \[|")/).flatten
      names.uniq.map { |name| "#{file}: #{name}" }
    end
  end

  # @return [Array<String>] the cases of the table
  def listed
    File.readlines(TABLE, chomp: true).filter_map { |line| line[/\A\| ([^|]+: [^|]+?) \|/, 1] }
  end

  # The table for these cases.
  def table(cases)
    here = ruby
    rows = cases.map do |name|
      file, title = name.split(": ", 2)
      place = here.include?(name) ? "`#{SUITES.fetch(file)}`: #{title}" : "none: #{NONE.fetch(name)}"
      "| #{name} | #{place} |"
    end
    ["# Cases of the Python suite and their examples in Ruby", "",
     "Written by `ruby cases.rb`; `spec/cases_spec.rb` checks it.", "", "| Python | Ruby |", "|---|---|", *rows, ""].join("\n")
  end
end

File.write(Cases::TABLE, Cases.table(Cases.python || Cases.listed)) if $PROGRAM_NAME == __FILE__
