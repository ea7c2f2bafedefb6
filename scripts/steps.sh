# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Running steps and adding up what they say; sourced by scripts/test and scripts/check-long. The caller stands in the root of
# the tree, lists `steps` (name, seconds it may take, kind), defines a function run_NAME for each, and calls steps_main "$@".

: "${self:?the path of the calling script}" "${logs:?where the logs of steps go}"
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset MAKEFLAGS MAKELEVEL
total_passed=0 total_failed=0 total_skipped=0
step_child=

# Print "passed failed skipped" as a log's closing line says, in the form of our runners or of pytest; nothing without one.
counts_of() {
	awk '
	/^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { found = 1; p = $1; f = $3; s = $5 + 0 }
	/^(=+ )?([0-9]+ [a-z]+, )*[0-9]+ [a-z]+ in [0-9.]+s/ {
		found = 1
		p = f = s = 0
		for (i = 1; i < NF; i++) {
			if ($(i + 1) ~ /^passed/) p += $i
			if ($(i + 1) ~ /^(failed|errors?|xpassed)/) f += $i
			if ($(i + 1) ~ /^(skipped|xfailed)/) s += $i
		}
	}
	END { if (found) print p, f, s }' "$1"
}

# Ends the step that is running: timeout hands the signal on to the step's process group.
stop_step() {
	[ -z "$step_child" ] || { kill "$step_child"; wait "$step_child"; } 2>/dev/null
	echo "interrupted" >&2
	exit 130
}
trap stop_step INT TERM

# step NAME SECONDS KIND: run it, print one line, add up. KIND `build` is good when it exits 0, `tests` must also have run one.
# Returns 1 if it failed.
step() {
	local name=$1 limit_s=$2 kind=$3 log=$logs/$1.log rc t0 passed=0 failed=0 skipped=0 what='' verdict=ok
	t0=$(date +%s%N)
	timeout -k 10 "$limit_s" "$self" --step "$name" </dev/null >"$log" 2>&1 &
	step_child=$!
	wait "$step_child"
	rc=$?
	step_child=
	if [ "$kind" = tests ]; then
		read -r passed failed skipped < <(counts_of "$log"; echo)
		if [ "$((passed + failed))" -eq 0 ]; then
			passed=0 failed=1 skipped=${skipped:-0} what="; ran no test, exit $rc"
		fi
		what="$passed passed, $failed failed, $skipped skipped$what"
	fi
	if [ "$rc" -ne 0 ] && [ "$failed" -eq 0 ]; then
		failed=1 what+="; exit $rc"
	fi
	[ "$rc" -ne 124 ] && [ "$rc" -ne 137 ] || what+="; cut off after $limit_s s"
	total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
	total_skipped=$((total_skipped + skipped))
	[ "$failed" -eq 0 ] || verdict=FAILED
	printf '%-7s %-12s %6.1f s   %s\n' "$verdict" "$name" "$((($(date +%s%N) - t0) / 100000000))e-1" "${what#; }"
	[ "$failed" -gt 0 ] || return 0
	echo "---- $log"
	tail -n "${STEP_TAIL:-150}" "$log"
	echo "----"
	return 1
}

# steps_main [--list | STEP...]: run the steps named, or all. Returns 0, 1 if anything failed, 2 usage, 3 not root.
steps_main() {
	local s name limit_s kind
	# shellcheck disable=SC2154 # the caller's
	case ${1:-} in
	--step)
		"run_$2"
		return
		;;
	--list)
		printf '%s\n' "${steps[@]%% *}"
		return
		;;
	esac
	for name in "$@"; do
		if [[ " ${steps[*]%% *} " != *" $name "* ]]; then
			echo "${self##*/}: no step named $name, see --list" >&2
			return 2
		fi
	done
	if [ "$(id -u)" -ne 0 ]; then
		echo "${self##*/}: loading BPF programs and making network namespaces needs root; \`make check sim lint\` does not" >&2
		return 3
	fi
	mkdir -p "$logs"
	for s in "${steps[@]}"; do
		read -r name limit_s kind <<<"$s"
		[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
		# Without packages or binaries nothing that follows would say more.
		step "$name" "$limit_s" "$kind" || [[ $name != setup && $name != build ]] || break
	done
	echo "total: $SECONDS s"
	echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
	[ "$total_failed" -eq 0 ]
}
