# frozen_string_literal: true

require "prosody/testing/rspec"
require_relative "window"

RSpec.describe Letters do
  let(:service) { prosody_service(described_class.method(:new), topics: "orders", state_collections: [WAITING]) }
  let(:letters) { service.sent("letters").map { |letter| [letter.key, letter.payload["orders"]] } }

  hour = 3600

  it "sends one letter for a window" do
    service.send_message("orders", "ann", { order: 1 })
    service.advance(20 * hour)
    service.send_message("orders", "ann", { order: 2 })
    service.restart
    service.advance(3 * hour)
    expect(service.sent("letters")).to be_empty
    service.advance(2 * hour)
    service.send_message("orders", "ann", { order: 3 })
    service.advance(WINDOW + 1)
    expect(letters).to eq([["ann", [1, 2]], ["ann", [3]]])
  end

  it "sends none to an excised customer" do
    service.send_message("orders", "ann", { order: 1 })
    service.excise("orders", "ann")
    service.advance(WINDOW + 1)
    expect(letters).to be_empty
  end

  it "waits for the broker" do
    service.send_message("orders", "ann", { order: 1 })
    service.idle
    service.fail(:produce, "letters") do
      service.advance(WINDOW + 1)
      expect(service.sent("letters")).to be_empty
    end
    service.advance(hour)
    expect(letters).to eq([["ann", [1]]])
  end
end
