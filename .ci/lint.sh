#!/usr/bin/env bash
# gofmt, go vet and staticcheck over both modules, also files with build tags of ours, and
# the syntax of these scripts.
source "$(dirname "$0")/lib.sh"

unformatted="$(.ci/gofiles.sh | xargs -r -0 gofmt -l)"
[[ -z $unformatted ]] || die "not formatted (run make fmt):"$'\n'"$unformatted"

tags=proof,agents,soak,pictures
for module in . e2e; do
	[[ -f $module/go.mod ]] || continue
	say "go vet and staticcheck in $module"
	"$GO" -C "$module" vet -tags "$tags" ./...
	"$GO" -C "$module" run "$STATICCHECK" -tags "$tags" ./...
done

"$GO" vet ./.ci/lines

for script in .ci/run .ci/*.sh; do
	bash -n "$script"
done
if has shellcheck; then
	shellcheck -x -P .ci .ci/run .ci/*.sh
fi
