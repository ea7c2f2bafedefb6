# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Running steps and adding up what they say; sourced by scripts/test and scripts/check-long. The caller stands in the root of
# the tree, lists `steps` (name, seconds it may take, kind, how), defines a function run_NAME for each, and calls steps_main "$@".
# Steps run one after the other, but for those whose how is `beside`: such a step begins in its place and runs beside those that follow,
# up to the next one that has to be `alone`, or the end.

: "${self:?the path of the calling script}" "${logs:?where the logs of steps go}"
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset MAKEFLAGS MAKELEVEL
total_passed=0 total_failed=0 total_skipped=0
declare -A step_pids=() step_starts=() step_limits=() step_kinds=()
beside=() # running, in the order they began

# Print "passed failed skipped" as a log's closing line says, in the form of our runners or of pytest, whose runs add up; nothing without one.
counts_of() {
	awk '
	/^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { found = 1; p = $1; f = $3; s = $5 + 0 }
	/^(=+ )?([0-9]+ [a-z]+, )*[0-9]+ [a-z]+ in [0-9.]+s/ {
		found = 1
		for (i = 1; i < NF; i++) {
			if ($(i + 1) ~ /^passed/) p += $i
			if ($(i + 1) ~ /^(failed|errors?|xpassed)/) f += $i
			if ($(i + 1) ~ /^(skipped|xfailed)/) s += $i
		}
	}
	END { if (found) print p + 0, f + 0, s + 0 }' "$1"
}

# Ends the steps that are running: timeout hands the signal on to the step's process group.
stop_steps() {
	[ "${#step_pids[@]}" -eq 0 ] || { kill "${step_pids[@]}"; wait "${step_pids[@]}"; } 2>/dev/null
	echo "interrupted" >&2
	exit 130
}
trap stop_steps INT TERM

# start_step NAME SECONDS KIND: run it in the background; end_step waits for it.
start_step() {
	rm -f "$logs/$1.end"
	step_starts[$1]=${EPOCHREALTIME/./}
	step_limits[$1]=$2 step_kinds[$1]=$3
	timeout -k 10 "$2" "$self" --step "$1" </dev/null >"$logs/$1.log" 2>&1 &
	step_pids[$1]=$!
}

# end_step NAME: wait for it, print one line, add up. Kind `build` is good when it exits 0, `tests` must also have run one.
# Returns 1 if it failed.
end_step() {
	local name=$1 log=$logs/$1.log limit_s=${step_limits[$1]} rc end_us passed=0 failed=0 skipped=0 what='' verdict=ok
	wait "${step_pids[$name]}"
	rc=$?
	unset "step_pids[$name]"
	end_us=$(cat "$logs/$name.end" 2>/dev/null) || end_us=$((step_starts[$name] + limit_s * 1000000)) # cut off before it could say
	rm -f "$logs/$name.end"
	if [ "${step_kinds[$name]}" = tests ]; then
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
	printf '%-7s %-12s %6.1f s   %s\n' "$verdict" "$name" "$(((end_us - step_starts[$name]) / 100000))e-1" "${what#; }"
	[ "$failed" -gt 0 ] || return 0
	echo "---- $log"
	tail -n "${STEP_TAIL:-150}" "$log"
	echo "----"
	return 1
}

# Waits for the steps that run beside others.
join_steps() {
	local name
	for name in "${beside[@]}"; do
		end_step "$name"
	done
	beside=()
}

# steps_main [--list | STEP...]: run the steps named, or all. Returns 0, 1 if anything failed, 2 usage, 3 not root.
steps_main() {
	local s name limit_s kind how rc
	# shellcheck disable=SC2154 # the caller's
	case ${1:-} in
	--step)
		"run_$2"
		rc=$?
		echo "${EPOCHREALTIME/./}" >"$logs/$2.end"
		return "$rc"
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
		read -r name limit_s kind how <<<"$s"
		[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
		[ "$how" != alone ] || join_steps
		start_step "$name" "$limit_s" "$kind"
		if [ "$how" = beside ]; then
			beside+=("$name")
			continue
		fi
		# Without packages or binaries nothing that follows would say more.
		end_step "$name" || [[ $name != setup && $name != build ]] || break
	done
	join_steps
	echo "total: $SECONDS s"
	echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
	[ "$total_failed" -eq 0 ]
}
