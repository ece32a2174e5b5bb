# frozen_string_literal: true

require "prosody/testing/rspec"
require_relative "orders"

RSpec.describe Orders do
  let(:service) { prosody_service(described_class.new, topics: "orders", subsystem: "orders", state_collections: [STATUS]) }

  # A shop's request.
  def ask(step)
    service.client.request(topic: "orders", key: "order-1", payload: { step: }, subsystems: ["orders"], timeout: 5)
           .fetch("orders")
  end

  def refused(text)
    be_a(Prosody::Failure).and have_attributes(error: have_attributes(class: Prosody::HandlerError, message: include(text)))
  end

  it "goes from placed to shipped" do
    %w[placed paid shipped].each { |step| expect(ask(step)).to eq(Prosody::Success.new({ "status" => step })) }
    expect(service.client.state("orders", STATUS).get("order-1")).to eq("shipped")
    service.advance(PATIENCE + 1)
    expect(service.state(STATUS).get("order-1")).to eq("shipped")
  end

  it "refuses a wrong step" do
    expect(ask("shipped")).to refused("order-1 is unknown: it cannot be shipped")
    service.idle
    expect(service.state(STATUS).get("order-1")).to be_nil
  end

  it "lapses when nobody pays" do
    ask("placed")
    service.advance(PATIENCE + 1)
    expect(service.state(STATUS).get("order-1")).to eq("lapsed")
    expect(ask("paid")).to refused("order-1 is lapsed: it cannot be paid")
  end

  it "is unknown once it is excised" do
    ask("placed")
    service.excise("orders", "order-1")
    service.advance(PATIENCE + 1)
    expect(service.state(STATUS).get("order-1")).to be_nil
    expect(ask("placed")).to eq(Prosody::Success.new({ "status" => "placed" }))
  end
end
