#!/usr/bin/env bash
# Generates the Go code of core/peer/wire from its .proto file. With --check, it compares what is
# there. protoc comes with the Python package grpcio-tools (scripts/setup.sh --check).
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
go=${GO:-go}
python=${PYTHON:-python3}
[[ -x build/venv/bin/python && -z ${PYTHON:-} ]] && python=build/venv/bin/python
tools=$PWD/build/tools
wire=core/peer/wire
out=$PWD/$wire
[[ ${1:-} == --check ]] && out=$(mktemp -d) && trap 'rm -rf -- "$out"' EXIT

mkdir -p "$tools"
install() {  # module version
  [[ -x $tools/${1##*/} ]] || GOFLAGS='' GOBIN=$tools "$go" install "$1@$2"
}
install google.golang.org/protobuf/cmd/protoc-gen-go v1.36.12
install google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.6.0

# The versions of the tools would only make the files differ.
PATH=$tools:$PATH "$python" -m grpc_tools.protoc -I "$wire" --go_out="$out" --go_opt=paths=source_relative \
  --go-grpc_out="$out" --go-grpc_opt=paths=source_relative peer.proto
sed -i -E '/^\/\/[[:space:]]+(- )?protoc[-a-z]*[[:space:]]+\(?v[0-9]/d; /^\/\/ versions:$/d' "$out"/*.pb.go

[[ ${1:-} == --check ]] || exit 0
for file in "$wire"/*.pb.go; do
  diff -u "$file" "$out/${file##*/}" || { echo "$file does not belong to peer.proto: run scripts/proto.sh"; exit 1; }
done
