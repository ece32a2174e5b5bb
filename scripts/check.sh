#!/usr/bin/env bash
# Formats and linters of every language. With --fix, Go, C and Python files are rewritten.
# A tool that is missing counts as a failure: scripts/setup.sh --check installs it.
set -uo pipefail

cd -- "$(dirname -- "$0")/.." || exit 1
make --no-print-directory go-env >/dev/null || exit 1
# shellcheck disable=SC1091
source build/env.sh
go=${GO:-go}
python=${PYTHON:-python3}
[[ -x build/venv/bin/ruff && -z ${PYTHON:-} ]] && python=build/venv/bin/python
tools=$PWD/build/tools
PATH=$PWD/build/venv/bin:$PATH

mapfile -t go_files < <(git ls-files -co --exclude-standard -- '*.go' ':!*.pb.go')
mapfile -t c_files < <(git ls-files -co --exclude-standard -- '*.c' '*.h')
mapfile -t shell_files < <(git ls-files -co --exclude-standard -- '*.sh' .ci/run)

if [[ ${1:-} == --fix ]]; then
  gofmt -w "${go_files[@]}"
  clang-format -i "${c_files[@]}"
  "$python" -m ruff format bindings/python tests/c tests/durable tests/scenarios tests/traces bindings/ruby/conformance examples/python
  "$python" -m ruff check --fix bindings/python tests/c tests/durable tests/scenarios tests/traces bindings/ruby/conformance examples/python
  exit
fi

failed=()
part() {  # name command...
  local name=$1 out; shift
  if out=$("$@" 2>&1); then printf 'ok    %s\n' "$name"; return; fi
  printf 'FAIL  %s\n%s\n' "$name" "$out"
  failed+=("$name")
}

formatted() {
  local bad
  bad=$(gofmt -l "${go_files[@]}")
  [[ -z $bad ]] || { echo "gofmt would change:"; echo "$bad"; return 1; }
}

lint_go() {
  if ! command -v golangci-lint >/dev/null && [[ ! -x $tools/golangci-lint ]]; then
    GOFLAGS='' GOBIN=$tools "$go" install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 || return
  fi
  PATH=$tools:$PATH golangci-lint run ./...
}

short() {  # 500 lines a file; a one-word rule of the project
  local file lines bad=0
  for file in "${go_files[@]}" "${c_files[@]}" "${shell_files[@]}"; do
    lines=$(wc -l <"$file")
    ((lines <= 500)) || { echo "$file has $lines lines, more than 500"; bad=1; }
  done
  return $bad
}

types() { (cd bindings/python && "$python" -m mypy --strict prosody); }
style() {
  (cd bindings/ruby && rubocop --format emacs -c .rubocop.yml . ../../tests/scenarios ../../tests/traces) && (cd examples/ruby && rubocop --format emacs)
}

[[ $python == /* ]] || { [[ $python == */* ]] && python=$PWD/$python; }
part gofmt formatted
part "go vet" "$go" vet ./...
part golangci-lint lint_go
part clang-format clang-format --dry-run --Werror "${c_files[@]}"
part "file length" short
part "ruff check" "$python" -m ruff check bindings/python tests/c tests/durable tests/scenarios tests/traces bindings/ruby/conformance examples/python
part "ruff format" "$python" -m ruff format --check bindings/python tests/c tests/durable tests/scenarios tests/traces bindings/ruby/conformance examples/python
part proto scripts/proto.sh --check
part mypy types
part rubocop style
part shellcheck shellcheck -S warning "${shell_files[@]}" scripts/services

((${#failed[@]} == 0)) || { printf 'check: %d failed: %s\n' "${#failed[@]}" "$(IFS=,; echo "${failed[*]}")"; exit 1; }
