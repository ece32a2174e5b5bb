#!/usr/bin/env bash
# Prints shell lines that make plain `go build`, `go vet` and `go test` find the relinked
# librdkafka, when compiling and when running. `make go-env` writes them to build/env.sh.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
printf 'PROSODY_BUILD=%q\n' "$PWD/build"

# Go's build cache keeps what cgo made of a package. It looks at CGO_CFLAGS, but neither at
# C headers nor at what pkg-config says: so a define stands for both, and for the folder.
print=$({ pwd; cat build/rdkafka/rdkafka.pc build/rdkafka/include/librdkafka/*.h; } | sha256sum | cut -c1-16)
printf 'export CGO_CFLAGS="-O2 -g -DPROSODY_RDKAFKA=0x%s"\n' "$print"
cat <<'SH'
export GOFLAGS="-tags=dynamic" CGO_ENABLED=1
export PKG_CONFIG_PATH="$PROSODY_BUILD/rdkafka:$PROSODY_BUILD/lib/pkgconfig"
case ":${LD_LIBRARY_PATH:-}:" in
  *":$PROSODY_BUILD/lib:"*) ;;
  *) export LD_LIBRARY_PATH="$PROSODY_BUILD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
esac
SH
