#!/usr/bin/env bash
# go.mod and go.sum say exactly what is used, and what was downloaded is what go.sum says.
source "$(dirname "$0")/lib.sh"

for module in . e2e; do
	[[ -f $module/go.mod ]] || continue
	"$GO" -C "$module" mod tidy -diff || die "$module/go.mod is not tidy: run go mod tidy in $module"
done
# Not in e2e: verify stumbles over the module there that is replaced by a folder.
"$GO" mod verify
