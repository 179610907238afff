#!/usr/bin/env bash
# go.mod and go.sum are tidy, and the downloaded modules match go.sum.
source "$(dirname "$0")/lib.sh"

for module in . e2e; do
	[[ -f $module/go.mod ]] || continue
	"$GO" -C "$module" mod tidy -diff || die "$module/go.mod is not tidy: run go mod tidy in $module"
done
# Not in e2e: go mod verify fails on its module that is replaced by a folder.
"$GO" mod verify
