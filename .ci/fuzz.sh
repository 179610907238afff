#!/usr/bin/env bash
# Runs every fuzz function of both modules, each for FUZZ_EACH seconds; with
# FUZZ_ALL above 0 each gets less when together they would take longer than that.
source "$(dirname "$0")/lib.sh"

each="${FUZZ_EACH:-5}"
all="${FUZZ_ALL:-0}"

# found prints "folder function" for every fuzz function.
found() {
	.ci/gofiles.sh | xargs -r -0 grep -HoE '^func Fuzz[A-Za-z0-9_]*\(' |
		sed -nE 's|^(.*)/[^/]+_test\.go:func (Fuzz[A-Za-z0-9_]*)\($|\1 \2|p' | sort
}

# fuzz runs one function and shows the input that it failed on. The fuzzing engine
# sometimes calls its own deadline a failure; such a run gets a second try.
fuzz() {
	local dir="$1" name="$2" log="$3" try
	for try in 1 2; do
		if "$GO" -C "$dir" test -run '^$' -fuzz "^$name\$" -fuzztime "${each}s" . >"$log" 2>&1; then
			grep '^fuzz: elapsed' "$log" | tail -n 1
			tail -n 1 "$log"
			return 0
		fi
		if [[ $try -eq 1 ]] && grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
			say "$name: stopped by the engine's own deadline, once more"
			continue
		fi
		break
	done
	cat "$log"
	sed -nE 's|.*Failing input written to (testdata/.*)$|\1|p' "$log" | while read -r input; do
		say "$dir/$input:"
		cat "$dir/$input"
	done
	return 1
}

mapfile -t targets < <(found)
[[ ${#targets[@]} -gt 0 ]] || die "no fuzz functions found"
if [[ $all -gt 0 && $((each * ${#targets[@]})) -gt $all ]]; then
	each=$((all / ${#targets[@]}))
	[[ $each -gt 0 ]] || each=1
fi
say "${#targets[@]} functions, ${each} s each"

log="$(mktemp)"
trap 'rm -f "$log"' EXIT
failed=()
for target in "${targets[@]}"; do
	read -r dir name <<<"$target"
	say "$dir $name"
	fuzz "$dir" "$name" "$log" || failed+=("$dir:$name")
done
[[ ${#failed[@]} -eq 0 ]] || die "failed: ${failed[*]}"
