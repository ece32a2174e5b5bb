#!/usr/bin/env bash
# examples.sh: runs the tests of the examples in C, Python and Ruby. They need no server.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
root=$PWD
python=${PYTHON:-python3}
for name in $(compgen -e PROSODY_ || true); do unset "$name"; done

export PKG_CONFIG_PATH=$root/build/lib/pkgconfig
make -s -C examples/c OUT="$root/build/examples" all test

# Each program starts, and ends in order when it is asked to.
for name in counter window orders; do
  coproc env PROSODY_MOCK=true PROSODY_BOOTSTRAP_SERVERS=mock PROSODY_GROUP_ID=example \
    PROSODY_SUBSCRIBED_TOPICS=orders timeout 60 "build/examples/$name"
  program=$COPROC_PID
  read -r line <&"${COPROC[0]}"
  [[ $line == *"until Ctrl-C" ]] || { echo "examples: $name said $line" >&2; exit 1; }
  kill -TERM "$program"
  wait "$program" || { echo "examples: $name ended with $?" >&2; exit 1; }
done

(cd examples/python && PYTHONPATH=$root/bindings/python "$python" -m pytest -q -p no:cacheprovider -p no:asyncio \
  -p prosody.testing.plugin .)
(cd examples/ruby && rspec -I "$root/bindings/ruby/lib" --default-path . --pattern '*_spec.rb')
