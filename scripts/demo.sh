#!/usr/bin/env bash
# Builds and runs the demo programs of C, Python and Ruby against the built library.
# They need no server. PYTHON and RUBY name the interpreters.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
mkdir -p build/demo
read -r -a cc <<<"${CC:-gcc}"
failed=0

run() {  # name command...
  local name=$1; shift
  printf -- '--- %s\n' "$name"
  if timeout -k 5 120 "$@" </dev/null; then return; fi
  printf -- '--- %s failed\n' "$name" >&2
  failed=1
}

build_c() {
  "${cc[@]}" -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -O2 -Iinclude -o build/demo/demo examples/c/demo.c \
    -Lbuild/lib -lprosody "-Wl,-rpath,$PWD/build/lib" -lpthread
}

build_c && run C build/demo/demo || failed=1
run Python env PYTHONPATH=bindings/python "${PYTHON:-python3}" bindings/python/examples/demo.py
run Ruby "${RUBY:-ruby}" -Ibindings/ruby/lib bindings/ruby/examples/demo.rb
exit $failed
