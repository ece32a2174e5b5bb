# Prosody. `make help` lists the targets.

SHELL  := bash
.SHELLFLAGS := -eu -o pipefail -c
PREFIX ?= /usr/local
GO     ?= go
export GO

lib  := build/lib
root := $(CURDIR)

# Everything that goes into libprosody.so. The list itself is a prerequisite, so that a
# file that was removed or renamed also counts as a change.
sources := $(shell find core capi include go.mod go.sum -type f \
	\( -name '*.go' -o -name '*.[chS]' -o -name 'go.*' -o -name '*.json' -o -name '*.cql' \) \
	! -name '*_test.go' 2>/dev/null | LC_ALL=C sort)

.PHONY: help build faults artifacts test test-go test-abi abi test-c test-python test-ruby check format docs demo \
	go-env install uninstall wheel gem dist services clean FORCE
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build/lib: libprosody.so, libprosody-rdkafka.so.1, pkgconfig/prosody.pc
	@mkdir -p build
	@flock build/.lock $(MAKE) --no-print-directory artifacts

faults: ## build/faults: the library for tests that inject panics
	@mkdir -p build
	@flock build/.lock $(MAKE) --no-print-directory build/faults/libprosody.so

artifacts: $(lib)/libprosody.so $(lib)/pkgconfig/prosody.pc build/env.sh

$(lib)/libprosody-rdkafka.so.1: scripts/rdkafka.sh go.mod
	scripts/rdkafka.sh

inputs := $(lib)/libprosody-rdkafka.so.1 build/env.sh build/sources.txt scripts/library.sh scripts/exports.sh $(sources)

$(lib)/libprosody.so: $(inputs)
	scripts/library.sh

build/faults/libprosody.so: $(inputs)
	scripts/library.sh build/faults faults

$(lib)/pkgconfig/prosody.pc: scripts/pkgconfig.sh include/prosody.h
	@mkdir -p $(@D)
	scripts/pkgconfig.sh $(root)/build $(root)/include $(root)/$(lib) >$@

build/sources.txt: FORCE
	@mkdir -p build
	@printf '%s\n' $(sources) >$@.new
	@cmp -s $@.new $@ && rm -f $@.new || mv -f $@.new $@

build/env.sh: scripts/env.sh $(lib)/libprosody-rdkafka.so.1
	scripts/env.sh >$@

go-env: ## build/env.sh: source it, then plain `go test ./...` finds librdkafka
	@mkdir -p build
	@flock build/.lock $(MAKE) --no-print-directory build/env.sh
	@echo "now: source build/env.sh"

test: ## everything, with real Kafka and Cassandra; installs what it needs
	scripts/test.sh

test-go: go-env ## go vet and go test -race; PKG=./core/timer/... for a part
	source build/env.sh && $(GO) vet $(or $(PKG),./...) && $(GO) test -race $(or $(PKG),./...)

test-abi: build ## exported symbols, TLS, bare dlopen, header as C and C++
	for check in symbols storage load header layout breaks; do scripts/abi.sh $$check; done

abi: ## include/prosody.abi anew: what compiled programs rely on
	@mkdir -p build
	python3 scripts/layout.py include/prosody.h >build/prosody.abi
	mv -f build/prosody.abi include/prosody.abi

test-c: build ## C tests under sanitizers and valgrind
	$(MAKE) -C tests/c test

test-python: build ## Python tests
	cd bindings/python && PYTHONPATH=. python3 -m pytest -q tests --ignore tests/real

test-ruby: build ## Ruby tests
	cd bindings/ruby && rspec -I lib

check: ## formats and linters of all languages
	scripts/check.sh

format: ## rewrite Go, C and Python files to their format
	scripts/check.sh --fix

docs: go-env ## docs/configuration.md from the table of options
	source build/env.sh && $(GO) run ./core/config/docs >build/configuration.md
	mv -f build/configuration.md docs/configuration.md

demo: build ## run the C, Python and Ruby demo programs
	scripts/demo.sh

services: ## start real Kafka (9094) and Cassandra (9042); no Docker needed
	scripts/services up

wheel: build ## build/dist: a Python wheel that carries both libraries
	scripts/package.sh wheel

gem: build ## build/dist: a Ruby gem that carries both libraries
	scripts/package.sh gem

dist: build ## build/dist: wheel, gem and tarball, with SHA256SUMS
	scripts/package.sh dist

install: build ## headers, libraries, prosody.pc and CMake files below PREFIX (and DESTDIR)
	scripts/install.sh "$(PREFIX)"

uninstall: ## remove what install put there
	scripts/install.sh --remove "$(PREFIX)"

clean: ## remove build/
	rm -rf build

FORCE:
