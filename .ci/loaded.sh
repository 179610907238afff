#!/usr/bin/env bash
# Runs the tests of both modules, without Chromium, while LOAD_LOOPS endless loops keep the
# processors busy. HEADGATE_TEST_SLOWDOWN stretches the time limits of the tests.
source "$(dirname "$0")/lib.sh"

loops="${LOAD_LOOPS:-10}"
export HEADGATE_TEST_SLOWDOWN="${HEADGATE_TEST_SLOWDOWN:-10}"

pids=()
trap '[[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null || true' EXIT
for ((n = 0; n < loops; n++)); do
	timeout 2h bash -c 'while :; do :; done' &
	pids+=($!)
done
say "$loops busy loops, time limits x $HEADGATE_TEST_SLOWDOWN"

failed=()
"$GO" test -count=1 -timeout 60m ./... || failed+=("main module")
mapfile -t packages < <(cd e2e && "$GO" list ./... | sed 's|^headgate/e2e/|./|' | grep -vE '/(browser|bench)$')
E2E_TIMEOUT=60m .ci/e2e.sh "${packages[@]}" || failed+=("whole program")
[[ ${#failed[@]} -eq 0 ]] || die "failed: $(printf '%s; ' "${failed[@]}")"
