#!/usr/bin/env bash
# Plays scenarios.txt by way of every host and compares what they say with the transcripts in it.
# Names of hosts as arguments play these alone: c python ruby fibers
set -uo pipefail

cd -- "$(dirname -- "$0")/../.." || exit 1
python=${PYTHON:-python3}
out=build/scenarios
mkdir -p "$out"
hosts=("$@")
((${#hosts[@]})) || hosts=(c python ruby fibers)
failed=0

c() {
  "${CC:-cc}" -std=gnu11 -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all \
    -Iinclude tests/scenarios/driver.c tests/scenarios/script.c -o "$out/driver" \
    -Lbuild/lib -lprosody -Wl,-rpath,"$PWD/build/lib" || return
  LSAN_OPTIONS=suppressions=tests/c/lsan.supp:print_suppressions=0 check "$out/driver"
}
python() { PYTHONPATH=bindings/python check "$python" tests/scenarios/driver.py; }
ruby() { check ruby -I bindings/ruby/lib tests/scenarios/driver.rb; }
fibers() { check ruby -r async -I bindings/ruby/lib tests/scenarios/driver.rb; }
check() { "$python" tests/scenarios/check.py tests/scenarios/scenarios.txt "$@"; }

for host in "${hosts[@]}"; do
  printf '%s: ' "$host"
  "$host" || failed=1
done
exit $failed
