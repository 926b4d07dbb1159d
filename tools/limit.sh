#!/bin/sh
# Runs a command for at most the given seconds, and ends with its exit code, or with 124 if the time was up. Neither
# POSIX nor macOS has timeout(1).
#
#	limit.sh SECONDS COMMAND...
set -u

left=$1
shift

"$@" &
command=$!
trap 'kill "$command" 2>/dev/null; exit 130' INT
trap 'kill "$command" 2>/dev/null; exit 143' TERM HUP

# Checks once a second. A second shell that sleeps and then kills would be faster, but could outlive this one.
timeout=
while kill -0 "$command" 2>/dev/null; do
	if [ "$left" -le 0 ]; then
		timeout=124
		kill "$command" 2>/dev/null
		break
	fi
	sleep 1
	left=$((left - 1))
done

wait "$command" 2>/dev/null
code=$?
exit "${timeout:-$code}"
