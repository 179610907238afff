#!/usr/bin/env bash
# Makes sure that the commands given as arguments exist: on Debian as root it installs
# the missing ones, elsewhere it names them and fails. With --try as the first argument
# it names them and does not fail.
source "$(dirname "$0")/lib.sh"

# package prints the Debian package of a command.
package() {
	case "$1" in
	node) echo nodejs ;;
	cc) echo gcc libc6-dev ;;
	promtool) echo prometheus ;;
	*) echo "$1" ;;
	esac
}

# install runs apt-get without starting the services of the packages.
install() {
	local policy=/usr/sbin/policy-rc.d
	if [[ ! -e $policy ]]; then
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq </dev/null
	apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

end=die
if [[ ${1:-} == --try ]]; then
	end=say
	shift
fi

missing=()
packages=()
for command in "$@"; do
	has "$command" && continue
	missing+=("$command")
	read -r -a names <<<"$(package "$command")"
	packages+=("${names[@]}")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ ! -e /etc/debian_version || $(id -u) -ne 0 ]]; then
	"$end" "not installed: ${missing[*]} (Debian packages: ${packages[*]})"
	exit 0
fi
say "installing ${packages[*]}"
install "${packages[@]}" || "$end" "apt-get could not install ${packages[*]}"
