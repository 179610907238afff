#!/usr/bin/env bash
# Lists the Go files of both modules, or of one of them (. or e2e), separated by NUL and
# relative to it. What npm installs is left out.
# Usage: gofiles.sh [MODULE]
source "$(dirname "$0")/lib.sh"

prune=(-name node_modules -o -name .git -o -path ./bin)
if [[ ${1:-} == . ]]; then
	prune+=(-o -path ./e2e)
fi
cd "${1:-.}"
find . \( "${prune[@]}" \) -prune -o -name '*.go' -type f -print0
