#!/usr/bin/env bash
# The whole test run: installs what is missing, starts real Kafka and Cassandra, builds, and
# tests every language against both. One line a step; the logs are in build/test/.
# Names as arguments run these steps alone, after set-up, services and build; --list lists.
set -uo pipefail

cd -- "$(dirname -- "$0")/.." || exit 1
root=$PWD
logs=$root/build/test
mkdir -p "$logs"
conformance=${PROSODY_CONFORMANCE:-../shared/conformance}
# The suites that must pass, each in mock mode and against real servers.
suites=(test_client.py test_processes.py test_messages.py test_records.py test_errors.py test_timers.py)
# Those of keyed and published state; they have a folder and fixtures of their own.
keyed=(test_values.py test_maps.py test_sets.py test_deques.py test_messages_in_state.py
       test_transactions.py test_scans.py test_ttl.py test_published.py test_restart.py test_requests.py
       test_telemetry.py)

export GO=${GO:-go} PYTHON=$root/build/venv/bin/python CI=${CI:-}
export HOME=${HOME:-$root/build/home}
mkdir -p "$HOME"
only=("$@")
passed=() failed=()

# ------------------------------------------------------------------------------ steps

step() {  # name limit command...: runs it with its output in a log, notes the outcome
  local name=$1 limit=$2 log began=$SECONDS rc=0
  shift 2
  [[ ${only[0]:-} != --list ]] || { echo "$name"; return 0; }
  wanted "$name" || return 0
  log=$logs/$name.log
  # A shell function runs in this shell's child, so that a limit can end it.
  timeout -k 20 "$limit" bash -c '"$@"' _ "$@" </dev/null >"$log" 2>&1 || rc=$?
  if ((rc == 0)); then
    passed+=("$name")
    printf 'ok    %-24s %4d s  %s\n' "$name" $((SECONDS - began)) "$(tail -n 1 "$log" | cut -c1-100)"
    return 0
  fi
  failed+=("$name")
  printf 'FAIL  %-24s %4d s  exit %d, log %s\n' "$name" $((SECONDS - began)) "$rc" "${log#"$root/"}"
  return 1
}

wanted() {
  local name
  ((${#only[@]})) || return 0
  for name in "${only[@]}"; do [[ $name == "$1" ]] && return 0; done
  [[ " setup services build " == *" $1 "* ]]
}

# What a pytest run skips although it should run is a failure, as is a run of nothing.
pytest_whole() {  # folder arguments...
  local folder=$1 out
  shift
  cd -- "$folder" || return 1
  out=$(mktemp)
  "$PYTHON" -m pytest -q -rfEs -p no:cacheprovider "$@" 2>&1 | tee "$out"
  local rc=${PIPESTATUS[0]}
  # "needs --real" and "mock mode only" are run by the other call.
  local skips
  skips=$(grep '^SKIPPED' "$out" | grep -cv -e 'needs --real' -e 'mock mode only')
  rm -f -- "$out"
  ((rc == 0)) || return "$rc"
  ((skips == 0)) || { echo "$skips line(s) of skipped tests"; return 1; }
}

python_tests() { PYTHONPATH=$root/bindings/python pytest_whole bindings/python tests --ignore tests/real; }

# Real members and a broker of their own, which the tests pause, kill and cut off.
faults() { PYTHONPATH=$root/bindings/python pytest_whole bindings/python "$@"; }

# One trace through programs in Python, Ruby and C, with real servers and a collector of the test.
traces() { PYTHONPATH=$root/bindings/python pytest_whole tests/traces; }

# The record of a key under SIGKILL, SIGSTOP and a bad line. KILLS=50 is the long run.
durable() { PYTHONPATH=$root/bindings/python pytest_whole tests/durable -s "$@"; }

conformance_suite() {  # suite mode...
  local suite=$1
  shift
  [[ -f $conformance/$suite ]] || { echo "no $suite in $conformance"; return 1; }
  PYTHONPATH=$root/bindings/python pytest_whole "$conformance" "$suite" "$@"
}

keyed_suite() {  # "suites" mode...
  local suites
  read -r -a suites <<<"$1"
  shift
  PYTHONPATH=$root/bindings/python pytest_whole "$conformance/state" "${suites[@]}" "$@"
}

# The programs of the documentation, and the tests that it names.
doc_programs() { "$PYTHON" scripts/docs.py; }

ruby_tests() {
  local out rc
  cd bindings/ruby || return 1
  out=$(rspec -I lib 2>&1)
  rc=$?
  printf '%s\n' "$out"
  ((rc == 0)) || return "$rc"
  grep -qE '^[1-9][0-9]* examples?, 0 failures$' <<<"$out" || { echo "pending or no examples"; return 1; }
}

# The suite of the Ruby package, which mirrors the one of Python. What a mode leaves out the other runs.
ruby_suite() {  # NAME=VALUE...
  local out rc
  cd bindings/ruby || return 1
  out=$(env "$@" rspec --options conformance/.rspec -I lib -I conformance conformance/*_spec.rb conformance/state/*_spec.rb 2>&1)
  rc=$?
  printf '%s\n' "$out"
  ((rc == 0)) || return "$rc"
  grep -qE '^[1-9][0-9]* examples?, 0 failures$' <<<"$out" || { echo "pending or no examples"; return 1; }
}

# The status page in a real browser.
page_tests() { source build/env.sh && "$GO" test -tags browser -run Chromium ./core/client; }

go_vet() { source build/env.sh && "$GO" vet ./...; }

go_tests() {
  local out rc
  # shellcheck disable=SC1091
  source build/env.sh
  out=$(mktemp)
  "$GO" test -race -shuffle=on -timeout 30m -json ./... >"$out"
  rc=$?
  "$PYTHON" scripts/gotest.py "$out" || rc=1
  rm -f -- "$out"
  return $rc
}

c_tests() {
  [[ -f tests/c/Makefile ]] || { echo "tests/c/Makefile is missing"; return 1; }
  make -C tests/c test
}

# ---------------------------------------------------------------------------- services

answers() {  # service: does one answer where the tests look for it, whoever started it
  local port=9094
  [[ $1 == cassandra ]] && port=9042
  timeout 10 bash scripts/services _probe "$1" 127.0.0.1 "$port" 1 2>/dev/null
}

services_up() {
  local service
  for service in kafka cassandra; do
    if answers "$service"; then echo "$service already answers"; continue; fi
    scripts/services up "$service" || return 1
    echo "$service" >>"$logs/started"
  done
}

services_down() {
  [[ -s $logs/started ]] || return 0
  while read -r service; do scripts/services down "$service"; done <"$logs/started"
  rm -f -- "$logs/started"
}

# --------------------------------------------------------------------------------- run

# The ends of the logs of what failed come last, short: who shows the output may cut it.
report() {
  local name
  services_down >"$logs/down.log" 2>&1
  for name in "${failed[@]}"; do
    echo "--- end of $name.log"
    tail -n 25 "$logs/$name.log" | cut -c1-160 | tail -c 1500
  done
  ((${#failed[@]} == 0)) || printf 'failed: %s\n' "${failed[*]}"
  printf '%d passed, %d failed\n' "${#passed[@]}" "${#failed[@]}"
}

export -f doc_programs pytest_whole python_tests faults conformance_suite keyed_suite ruby_tests ruby_suite go_vet go_tests page_tests c_tests answers services_up durable traces
export root logs conformance
[[ ! -d $conformance ]] || PROSODY_CONFORMANCE=$(realpath "$conformance") && export PROSODY_CONFORMANCE
rm -f -- "$logs/started"
trap 'report; exit 130' INT TERM

step setup 900 scripts/setup.sh
step services 900 services_up
step build 1500 make --no-print-directory build
step symbols 120 scripts/abi.sh symbols
step storage 60 scripts/abi.sh storage
step load 120 scripts/abi.sh load
step header 120 scripts/abi.sh header
step layout 120 scripts/abi.sh layout
step breaks 120 scripts/abi.sh breaks
step go-vet 600 go_vet
step go-test 1900 go_tests
step page 300 page_tests
step rights 400 scripts/rights.sh
step c-test 1200 c_tests
step python-test 900 python_tests
step ruby-test 900 ruby_tests
step churn 400 faults tests/real/test_churn.py
step interop 600 faults tests/real/test_interop.py tests/real/test_alike.py tests/real/test_answers.py
step faults 900 faults tests/real --ignore tests/real/test_churn.py --ignore tests/real/test_interop.py --ignore tests/real/test_alike.py --ignore tests/real/test_answers.py
step kill 420 durable test_kill.py
step store-faults 400 durable test_faults.py
step demo 400 scripts/demo.sh
step docs 600 doc_programs
step examples 400 scripts/examples.sh
step packages 400 scripts/packages.sh
step scenarios 300 tests/scenarios/run.sh
step traces 300 traces
step ruby-conform-mock 600 ruby_suite
step ruby-conform-fibers 600 ruby_suite CONFORMANCE_FIBERS=1
step ruby-conform-real 900 ruby_suite CONFORMANCE_REAL=1
if [[ -d $conformance ]]; then
  for suite in "${suites[@]}"; do
    name=${suite#test_}; name=${name%.py}
    step "conform-$name-mock" 900 conformance_suite "$suite"
    step "conform-$name-real" 900 conformance_suite "$suite" --real
  done
  step conform-state-mock 900 keyed_suite "${keyed[*]}"
  step conform-state-real 900 keyed_suite "${keyed[*]}" --real
else
  echo "note  no conformance suites in $conformance"
fi

[[ ${only[0]:-} != --list ]] || exit 0
report
((${#failed[@]} == 0))
