#!/usr/bin/env bash
# Runs the peer and ours in turn and prints a table of medians and ratios.
#
#   PEER_PYTHON=venv/bin/python bench/run.sh [PART…]
#
# PEER_PYTHON is an interpreter with the peer's package; without it only ours runs. PYTHON is
# ours and needs confluent-kafka, which fills the topics. PARTs: consume wide memory send latency request wide-request state wide-state rows cached c.
# rows are plain writes of single rows, beside which keyed state is to be seen; cached are
# operations on state in memory. ROUNDS=3 is how often each runs. Kafka on 9094 and Cassandra on 9042 are expected.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
make --no-print-directory build
# shellcheck disable=SC1091
source build/env.sh
out=build/bench
mkdir -p "$out"
results=$out/results.jsonl
: >"$results"
parts=" ${*:-consume wide memory send latency request wide-request state wide-state rows cached c} "

# note PART WHO MODE: adds a line of JSON from stdin, with the load of the machine.
note() {
  python3 -c 'import json, os, sys
line = json.loads(sys.stdin.read().strip().splitlines()[-1])
line.update(part=sys.argv[1], who=sys.argv[2], mode=sys.argv[3], load=os.getloadavg()[0])
print(json.dumps(line))' "$@" | tee -a "$results"
}

python_part() {  # part who mode arguments…: a run that crashes counts as none
  local part=$1 who=$2 mode=$3 interpreter=${PYTHON:-python3} path=$PWD/bindings/python
  shift 3
  if [[ $who == peer ]]; then interpreter=${PEER_PYTHON:-} path=; fi
  [[ -n $interpreter ]] || return 0
  [[ $mode == real ]] || set -- "$@" --mock
  local line
  line=$(env -u LD_LIBRARY_PATH PYTHONPATH="$path" timeout 300 "$interpreter" bench/bench.py "$@" 2>/dev/null) ||
    line=$(env -u LD_LIBRARY_PATH PYTHONPATH="$path" timeout 300 "$interpreter" bench/bench.py "$@" 2>/dev/null) ||
    { echo "$part $who $mode: crashed twice" >&2; return 0; }
  note "$part" "$who" "$mode" <<<"$line"
}

both() {  # part peer's count, ours, arguments…
  local part=$1 theirs=$2 ours=$3 mode
  shift 3
  [[ $parts == *" $part "* ]] || return 0
  for mode in real mock; do
    python_part "$part" peer "$mode" "$@" --count "$theirs"
    python_part "$part" ours "$mode" "$@" --count "$ours"
  done
}

rows_part() {
  [[ $parts == *" rows "* ]] || return 0
  "$out/rows" 20000 32 | note rows plain narrow
  "$out/rows" 20000 256 | note rows plain wide
}

cached_part() {  # of each the best of ten
  [[ $parts == *" cached "* ]] || return 0
  local line
  if [[ -n ${PEER_PYTHON:-} ]]; then
    # The peer may abort at its end, after it has printed.
    line=$("$PEER_PYTHON" bench/cached.py 2>/dev/null) || true
    note cached peer mock <<<"$line"
  fi
  PYTHONPATH=$PWD/bindings/python "${PYTHON:-python3}" bench/cached.py 2>/dev/null | note cached ours mock
}

c_part() {
  [[ $parts == *" c "* ]] || return 0
  local topic records=1000000
  topic=$(TOPIC='' "$out/poll" "$records" 100 | python3 -c 'import json, sys; print(json.load(sys.stdin)["topic"])')
  export TOPIC=$topic PROSODY_CASSANDRA_NODES=localhost:9042 PROSODY_LOG=error
  export PROSODY_BOOTSTRAP_SERVERS=${BENCH_KAFKA:-localhost:9094}
  "$out/poll" "$records" 100 | note c poll plain
  "$out/bench" "$records" 100 "$TOPIC" | note c ours narrow
  "$out/poll" "$records" 100 queued.min.messages=1000000 fetch.queue.backoff.ms=10 | note c poll tuned
  PROSODY_MAX_CONCURRENCY=256 PROSODY_MAX_UNCOMMITTED=256 "$out/bench" "$records" 100 "$TOPIC" | note c ours wide
}

go build -o "$out/poll" ./bench/poll
go build -o "$out/rows" ./bench/rows
PKG_CONFIG_PATH=build/lib/pkgconfig make --no-print-directory -s -C examples/c OUT="$PWD/$out" \
  PKG_CONFIG_PATH="$PWD/build/lib/pkgconfig" "$PWD/$out/bench"

uptime
for ((round = 0; round < ${ROUNDS:-3}; round++)); do
  both consume 2000 20000 consume
  both wide 20000 60000 consume --concurrency 256 --uncommitted 1024
  both memory 2000 2000 consume # as many records, so that the script itself needs as much
  both state 1000 20000 state
  rows_part
  both wide-state 10000 30000 state --concurrency 256 --uncommitted 1024
  cached_part
  both send 20000 20000 send
  both request 200 1000 request --inflight 1
  both wide-request 1000 10000 request --inflight 64
  both latency 0 0 latency --duration 5
  (c_part)
done
uptime
python3 bench/table.py "$results"
