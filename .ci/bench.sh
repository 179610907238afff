#!/usr/bin/env bash
# Benchmarks of both modules: every one, in every package that has some. Ratios within one
# run mean something; numbers from different machines do not. HAProxy takes part when it is
# installed.
# With --once each runs once and small (-benchtime 1x -short): CI checks that they work.
source "$(dirname "$0")/lib.sh"

flags=(-benchmem -timeout 1h)
if [[ ${1:-} == --once ]]; then
	flags=(-benchtime 1x -short -timeout 5m)
else
	.ci/tools.sh --try haproxy
fi

# packages prints the folders of a module that have benchmarks.
packages() {
	.ci/gofiles.sh "$1" | (cd "$1" && xargs -r -0 grep -lE '^func Benchmark') | sed -E 's|/[^/]+$||' | sort -u
}

for module in . e2e; do
	mapfile -t dirs < <(packages "$module")
	[[ ${#dirs[@]} -gt 0 ]] || die "no benchmarks found in $module"
	# One package at a time: benchmarks beside others measure the others.
	"$GO" -C "$module" test -p 1 -vet=off -run '^$' -bench . "${flags[@]}" "${dirs[@]}"
done
