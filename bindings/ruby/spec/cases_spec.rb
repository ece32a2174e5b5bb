# frozen_string_literal: true

require_relative "../conformance/cases"

RSpec.describe Cases do
  let(:cases) { described_class.python || described_class.listed }

  it "has an example, or a reason for none, for each case of the Python suite" do
    expect(cases.size).to be > 100
    expect(cases - described_class.ruby - described_class::NONE.keys).to eq([])
  end

  it "has no example without a case, and no needless reason" do
    expect(described_class.ruby - cases).to eq([])
    expect(described_class::NONE.keys & described_class.ruby).to eq([])
    expect(described_class::NONE.keys - cases).to eq([])
  end

  it "has a table that is up to date" do
    expect(File.read(described_class::TABLE)).to eq(described_class.table(cases))
  end
end
