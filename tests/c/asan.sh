#!/bin/sh
# A `go` that builds with the address sanitizer, for scripts/library.sh.
command=$1
shift
if [ "$command" = build ]; then set -- -asan "$@"; fi
exec go "$command" "$@"
