#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: Debian packages (as root or by sudo)
# and Python packages into build/venv. With --check, also the linters.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
debian=(gcc g++ libc6-dev make binutils perl util-linux pkg-config valgrind
        cmake chromium ruby ruby-dev ruby-ffi ruby-rspec ruby-minitest ruby-async puma)
python=(pytest gunicorn mypy confluent-kafka uvloop opentelemetry-proto opentelemetry-sdk grpcio)
if [[ ${1:-} == --check ]]; then
  debian+=(rubocop shellcheck)
  python+=(ruff mypy clang-format grpcio-tools)
fi
command -v java >/dev/null || debian+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || debian+=(maven)
command -v python3 >/dev/null || debian+=(python3)

root=()
[[ $EUID -eq 0 ]] || root=(sudo -n)

install_debian() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
}

missing=()
for package in "${debian[@]}"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup: Debian packages ${missing[*]}"
  "${root[@]}" apt-get update -qq </dev/null
  install_debian "${missing[@]}"
fi

venv=build/venv
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  rm -rf -- "$venv"
  if ! python3 -m venv "$venv" 2>/dev/null; then
    "${root[@]}" apt-get update -qq </dev/null
    install_debian python3-venv
    rm -rf -- "$venv"
    python3 -m venv "$venv"
  fi
fi
# pip does nothing for what is there already.
"$venv/bin/python" -m pip install -q --disable-pip-version-check "${python[@]}" </dev/null
"$venv/bin/python" --version
# The other implementation has a place of its own: its package has the same name.
interop=build/interop
[[ -x $interop/bin/python ]] || "$venv/bin/python" -m venv "$interop"
"$interop/bin/python" -m pip install -q --disable-pip-version-check prosody-events==0.6.1 </dev/null
ruby --version
