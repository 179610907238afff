#!/usr/bin/env bash
# Runs every fuzz function of both modules for FUZZ_EACH seconds. With FUZZ_ALL above 0 each
# function gets less when all of them together would take longer than that many seconds.
# Each package is built once for all its functions.
source "$(dirname "$0")/lib.sh"

each="${FUZZ_EACH:-5}"
all="${FUZZ_ALL:-0}"

# functions prints "folder function" for every fuzz function.
functions() {
	.ci/gofiles.sh | xargs -r -0 grep -HoE '^func Fuzz[A-Za-z0-9_]*\(' |
		sed -nE 's|^(.*)/[^/]+_test\.go:func (Fuzz[A-Za-z0-9_]*)\($|\1 \2|p' | sort
}

# fuzz runs one function and shows the input that it failed on. The fuzzing engine
# sometimes reports its own deadline as a failure; such a run gets a second try.
fuzz() {
	local dir="$1" name="$2" try
	for try in 1 2; do
		if (cd "$dir" && "$work/test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "${each}s" \
			-test.fuzzcachedir "$cache/$dir" -test.timeout 10m) >"$work/log" 2>&1; then
			grep '^fuzz: elapsed' "$work/log" | tail -n 1
			return 0
		fi
		if [[ $try -eq 1 ]] && grep -q 'context deadline exceeded' "$work/log" && ! grep -q 'Failing input written' "$work/log"; then
			say "$name: ended by the engine's own deadline, trying again"
			continue
		fi
		break
	done
	cat "$work/log"
	sed -nE 's|.*Failing input written to (testdata/.*)$|\1|p' "$work/log" | while read -r input; do
		say "$dir/$input:"
		cat "$dir/$input"
	done
	return 1
}

mapfile -t targets < <(functions)
[[ ${#targets[@]} -gt 0 ]] || die "no fuzz functions found"
if [[ $all -gt 0 && $((each * ${#targets[@]})) -gt $all ]]; then
	each=$((all / ${#targets[@]}))
	[[ $each -gt 0 ]] || each=1
fi
say "${#targets[@]} functions, ${each} s each"

cache="$("$GO" env GOCACHE)/fuzz-headgate"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
built=""
failed=()
for target in "${targets[@]}"; do
	read -r dir name <<<"$target"
	if [[ $dir != "$built" ]]; then
		built="$dir"
		"$GO" -C "$dir" test -c -vet=off -fuzz=Fuzz -o "$work/test" . || die "$dir does not build"
	fi
	say "$dir $name"
	fuzz "$dir" "$name" || failed+=("$dir:$name")
done
[[ ${#failed[@]} -eq 0 ]] || die "failed: ${failed[*]}"
