# frozen_string_literal: true

require "logger"
require "prosody/testing"
require "rbs"

# The signatures of sig/ and the code agree: the same names, methods and arguments, seen from both sides.
RSpec.describe "signatures" do
  # What is public for the library itself alone; each has the tag @private.
  internal = {
    "Prosody::AdminClient" => %i[.release], "Prosody::ErrorClassification" => %i[.unwrap],
    "Prosody::Message" => %i[delivered?], "Prosody::Record" => %i[milliseconds .received],
    "Prosody::StateDefinition" => %i[identity], "Prosody::Published" => %i[.finalizer]
  }
  internal["Prosody::Testing::Service"] = %i[.unique]
  # They pass all arguments on to Service.new.
  forwarding = { "Prosody::Testing::Service" => %i[.open], "Prosody::Testing::Helper" => %i[prosody_service] }
  # Those whose arguments are passed on: what they take, the methods of the collections say.
  passing = %w[PublishedMap PublishedSet PublishedDeque].map { |name| "Prosody::#{name}" }

  environment = lambda do
    loader = RBS::EnvironmentLoader.new
    loader.add(library: "logger", version: nil)
    loader.add(library: "date", version: nil)
    loader.add(path: Pathname(File.expand_path("../sig", __dir__)))
    RBS::Environment.from_loader(loader).resolve_type_names
  end

  # @return [Hash{String => Array}] declared members by the name of the class or module, and its declaration
  declared = environment.call.class_decls.filter_map do |name, entry|
    next unless name.to_s.start_with?("::Prosody")

    [name.to_s.delete_prefix("::"), entry.decls.map(&:decl)]
  end.to_h

  # The methods of declarations: name, with a dot before those of the class, to their types.
  methods_of = lambda do |decls|
    members = decls.flat_map(&:members)
    found = members.each_with_object({}) do |member, all|
      dot = member.respond_to?(:kind) && member.kind == :singleton ? "." : ""
      case member
      when RBS::AST::Members::MethodDefinition then all[:"#{dot}#{member.name}"] = member.types
      when RBS::AST::Members::AttrReader then all[member.name] = [RBS::Parser.parse_method_type("() -> untyped")]
      end
    end
    members.grep(RBS::AST::Members::Alias).each { |member| found[member.new_name] = found.fetch(member.old_name) }
    found
  end

  # The same of the code: methods that the class itself has.
  actual = lambda do |owner|
    own = owner.public_instance_methods(false).to_h { |name| [name, owner.instance_method(name)] }
    made = owner.is_a?(Class) && owner.private_method_defined?(:initialize, false)
    own[:initialize] = owner.instance_method(:initialize) if made
    owner.singleton_methods(false).each { |name| own[:".#{name}"] = owner.method(name) }
    own
  end

  # What arguments a method takes, or one of its types: numbers of positional ones, and names of keywords.
  shape = lambda do |method|
    parameters = method.parameters
    # Keywords that go on to the superclass are its own.
    rest = parameters.find { |parameter| parameter.first == :keyrest }
    above = method.name == :initialize && rest && method.super_method
    parameters = parameters - [rest] + above.parameters if above && above.owner != BasicObject
    parameters -= [%i[key delivered]] # a tag of the library
    kinds = parameters.group_by(&:first).transform_values { |some| some.map(&:last) }
    count = ->(*names) { names.sum { |name| kinds.fetch(name, []).size } }
    most = kinds.key?(:rest) ? Float::INFINITY : count.call(:req, :opt)
    { least: count.call(:req), most:, required: kinds.fetch(:keyreq, []).sort, optional: kinds.fetch(:key, []).sort,
      any: kinds.key?(:keyrest) }
  end
  typed = lambda do |type|
    arguments = type.type
    positional = arguments.required_positionals.size + arguments.trailing_positionals.size
    most = arguments.rest_positionals ? Float::INFINITY : positional + arguments.optional_positionals.size
    { least: positional, most:, required: arguments.required_keywords.keys.sort, optional: arguments.optional_keywords.keys.sort,
      any: !arguments.rest_keywords.nil? }
  end

  # Why the types do not describe the method, or nil.
  difference = lambda do |method, types|
    code = shape.call(method)
    shapes = types.map(&typed)
    least = shapes.map { |one| one[:least] }.min
    most = shapes.map { |one| one[:most] }.max
    # `*default` is how an optional argument is told from nil.
    most = Float::INFINITY if code[:most].infinite? && shapes.size > 1
    signature = { least:, most:, required: shapes.map { |one| one[:required] }.inject(:&),
                  optional: shapes.flat_map { |one| one[:optional] }.uniq.sort, any: shapes.any? { |one| one[:any] } }
    "#{method.owner}##{method.name}: code #{code}, signature #{signature}" if code != signature
  end

  constants = lambda do |space|
    own = space.constants(false).map { |name| space.const_get(name) }.grep(Module).uniq
    own + own.flat_map { |one| constants.call(one) }
  end
  # The private ones are there as ancestors.
  ancestors = constants.call(Prosody).flat_map(&:ancestors) + [Prosody]
  public_names = ancestors.uniq.select { |owner| owner.name.to_s.start_with?("Prosody") }

  it "resolve all names of types" do
    env = environment.call
    builder = RBS::DefinitionBuilder.new(env:)
    declared.each_key do |name|
      type = RBS::TypeName.new(name: name.split("::").last.to_sym, namespace: RBS::Namespace.parse("::#{name}").parent)
      [builder.build_instance(type), builder.build_singleton(type)].each do |definition|
        definition.methods.each_value { |method| method.method_types.each(&:to_s) }
      end
    end
    expect(declared.size).to be > 20
  end

  it "name the classes and modules of the code" do
    expect(declared.keys).to match_array(public_names.map(&:name))
  end

  it "have the superclasses of the code" do
    wrong = declared.filter_map do |name, decls|
      owner = public_names.find { |one| one.name == name }
      next unless owner.is_a?(Class)

      written = decls.first.super_class&.name.to_s.delete_prefix("::")
      "#{name} < #{owner.superclass}, not #{written}" unless [written, "Object"].include?(owner.superclass.name) || written.empty?
    end
    expect(wrong).to eq([])
  end

  public_names.each do |owner|
    it "have the methods of #{owner}" do
      types = methods_of.call(declared.fetch(owner.name, []))
      methods = actual.call(owner).except(*internal.fetch(owner.name, []))
      methods.delete(:initialize) unless types.key?(:initialize) # not for the user to call
      expect(types.keys).to match_array(methods.keys)
      compared = methods.except(*forwarding.fetch(owner.name, []))
      differences = compared.filter_map { |name, method| difference.call(method, types.fetch(name)) }
      expect(passing.include?(owner.name) ? [] : differences).to eq([])
    end
  end

  passing.each do |name|
    it "have the arguments of the collections in #{name}" do
      types = methods_of.call(declared.fetch(name))
      collection = Prosody.const_get("#{name[/Published(\w+)/, 1]}State")
      wrong = types.filter_map do |method, overloads|
        without_key = overloads.map do |type|
          type.update(type: type.type.update(required_positionals: type.type.required_positionals.drop(1)))
        end
        difference.call(collection.instance_method(method), without_key)
      end
      expect(wrong).to eq([])
    end
  end

  # What each Ruby object has needs no words.
  plain = %i[hash eql? inspect to_s deconstruct_keys initialize after_teardown]

  (public_names - [Prosody::Configuration]).each do |owner|
    it "have words for #{owner}" do
      methods = actual.call(owner).except(*internal.fetch(owner.name, []), *plain)
      silent = methods.reject do |_, method|
        file, line = method.source_location
        # Methods that pass on are described by their class.
        File.readlines(file)[line - 2].strip.start_with?("#") || passing.include?(owner.name)
      end
      expect(silent.keys).to eq([])
    end
  end

  it "take a value for each option" do
    types = methods_of.call(declared.fetch("Prosody::Configuration"))
    options = Prosody.module_eval { const_get(:OPTIONS).keys }
    expect(options - types.keys).to eq([])
    expect(options.map { |name| :"#{name}=" } - types.keys).to eq([])
  end
end
