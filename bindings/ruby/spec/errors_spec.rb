# frozen_string_literal: true

RSpec.describe "errors of handlers" do
  it "says what is permanent" do
    expect(Prosody::TransientError.new.permanent?).to be(false)
    expect(Prosody::PermanentError.new.permanent?).to be(true)
    expect(Prosody::NullValueError.new.permanent?).to be(false)
    expect { Prosody::EventHandlerError.new.permanent? }.to raise_error(NotImplementedError)
  end

  it "has the documented ancestors" do
    expect(Prosody::PermanentStateError.ancestors).to include(Prosody::PermanentError, Prosody::Error, StandardError)
    expect(Prosody::NullValueError.ancestors).to include(Prosody::TransientStateError, Prosody::TransientError)
    expect(Prosody::CallError.ancestors).to include(RuntimeError)
    expect(Prosody::Cancelled.ancestors).not_to include(StandardError)
  end

  describe Prosody::ErrorClassification do
    def handler(&block)
      Class.new(Prosody::EventHandler) do
        def on_message(_context, message)
          raise message
        end
        class_eval(&block) if block
      end.new
    end

    it "translates and keeps message and cause" do
      made = handler { permanent :on_message, KeyError, TypeError }
      expect { made.on_message(nil, TypeError.new("bad")) }
        .to raise_error(Prosody::PermanentError, "bad") { |error| expect(error.cause).to be_a(TypeError) }
      expect { made.on_message(nil, IOError.new("x")) }.to raise_error(IOError)
    end

    it "translates to transient errors, in layers" do
      made = handler do
        permanent :on_message, StandardError
        transient :on_message, Prosody::PermanentError
      end
      expect { made.on_message(nil, "x") }.to raise_error(Prosody::TransientError, "x")
    end

    it "needs classes" do
      expect { handler { permanent :on_message } }.to raise_error(ArgumentError)
      expect { handler { permanent :on_message, "KeyError" } }.to raise_error(ArgumentError)
    end

    it "needs the method" do
      expect { handler { permanent :on_massage, KeyError } }
        .to raise_error(NameError, "Method `on_massage` is not defined")
    end

    it "works for what does not take the arguments of handlers" do
      made = handler do
        def price(amount, currency:)
          yield "#{amount} #{currency}"
        end
        permanent :price, KeyError
      end
      expect(made.price(3, currency: "EUR", &:upcase)).to eq("3 EUR")
    end
  end

  describe Prosody::EventHandler do
    def check(**methods)
      parent = described_class
      made = Class.new(parent) do
        { on_message: proc { |_, _| }, on_excise: proc { |_, _| }, on_timer: proc { |_, _| } }
          .merge(methods).compact.each { |name, body| define_method(name, &body) }
      end
      described_class.validate_handler!(made.new)
    end

    it "accepts handlers" do
      expect { check }.not_to raise_error
      expect { check(on_message: ->(*_all) {}) }.not_to raise_error
      expect { check(on_message: ->(_one, _two = nil, more: nil) { more }) }.not_to raise_error
    end

    it "accepts what a parent has defined" do
      parent = Class.new(described_class) do
        def on_message(_context, _message); end
        def on_excise(_context, _message); end
        def on_timer(_context, _timer); end
      end
      expect { described_class.validate_handler!(Class.new(parent).new) }.not_to raise_error
    end

    it "names the method that is missing" do
      %i[on_message on_excise on_timer].each do |name|
        expect { check(name => nil) }.to raise_error(ArgumentError, "handler must implement ##{name}")
      end
      expect { described_class.validate_handler!(nil) }.to raise_error(ArgumentError, "handler must implement #on_message")
    end

    it "names the method that takes other arguments" do
      [->(_one) {}, ->(_one, _two, _three) {}, ->(_one, _two, more:) { more }].each do |body|
        expect { check(on_excise: body) }.to raise_error(ArgumentError, "handler #on_excise must accept two parameters")
      end
    end

    it "is not deceived by a wrapper" do
      made = Class.new(described_class) do
        def on_message(_context, _message); end
        def on_timer(_context, _timer); end
        permanent :on_excise, KeyError
        permanent :on_message, KeyError
      end
      expect { described_class.validate_handler!(made.new) }
        .to raise_error(ArgumentError, "handler must implement #on_excise")
    end

    it "cannot be used by itself" do
      expect { described_class.new.on_timer(nil, nil) }.to raise_error(NotImplementedError)
    end
  end
end
