# frozen_string_literal: true

require "open3"
require "rbconfig"

# Each example is a program that starts, and that ends in order when it is asked to.
RSpec.describe "examples" do
  options = { "PROSODY_MOCK" => "true", "PROSODY_BOOTSTRAP_SERVERS" => "mock", "PROSODY_GROUP_ID" => "example",
              "PROSODY_SUBSCRIBED_TOPICS" => "orders" }

  %w[counter window orders].product(%w[INT TERM]).each do |name, signal|
    it "starts #{name} and ends it by #{signal}" do
      paths = $LOAD_PATH.flat_map { |path| ["-I", path] }
      Open3.popen3(options, RbConfig.ruby, *paths, File.join(__dir__, "#{name}.rb")) do |_, output, errors, program|
        expect(output.gets).to match(/until Ctrl-C/)
        Process.kill(signal, program.pid)
        expect(program.value).to be_success, errors.read
        expect(errors.read).to eq("")
      end
    end
  end
end
