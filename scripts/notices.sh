#!/usr/bin/env bash
# notices.sh: prints the licenses of all that the two libraries hold of others.
set -euo pipefail

cd -- "$(dirname -- "$0")/.."
go=${GO:-go}
# shellcheck disable=SC1091
source build/env.sh

echo "libprosody.so and libprosody-rdkafka.so.1 hold the software below, under its own licenses."
"$go" list -deps -tags dynamic -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./capi |
  sort -u | while read -r name version folder; do
    printf '\n==== %s %s\n\n' "$name" "$version"
    found=0
    for file in "$folder"/{LICENSE,LICENCE,COPYING,NOTICE}*; do
      [[ -f $file ]] || continue
      cat -- "$file"; echo; found=1
    done
    ((found)) || { echo "notices: no license of $name in $folder" >&2; exit 1; }
  done
printf '\n==== The Go standard library and runtime\n\n'
cat -- "$("$go" env GOROOT)/LICENSE"
printf '\n==== librdkafka and what it bundles\n\n'
cat -- "$("$go" list -m -f '{{.Dir}}' github.com/confluentinc/confluent-kafka-go/v2)/kafka/librdkafka_vendor/LICENSES.txt"
