# frozen_string_literal: true

require "prosody/testing/rspec"
require_relative "counter"

RSpec.describe Counter do
  let(:service) { prosody_service(described_class.new, topics: "orders", subsystem: "counter", state_collections: [COUNT]) }

  it "counts each message once" do
    %w[a b a].each { |key| service.send_message("orders", key, {}) }
    service.fail(:write, "a", times: 3) # is made again
    service.idle
    service.restart
    service.idle
    expect(%w[a b c].map { |key| service.state(COUNT).get(key) }).to eq([2, 1, nil])
  end

  it "starts anew when a key is excised" do
    service.send_message("orders", "a", {})
    service.excise("orders", "a")
    service.send_message("orders", "a", {})
    service.idle
    expect(service.state(COUNT).get("a")).to eq(1)
  end
end
