#!/bin/sh
# Runs a command and reports every few seconds that it is still running.
#
#	progress.sh LABEL COMMAND...       the output of the command passes through
#	progress.sh -q LABEL COMMAND...    its output is kept, counted by line, and shown if it fails
#
# "go build -v" prints one line per package that it compiles, so -q turns it into a counter.
# Progress goes to stderr; stdout belongs to the command.
set -u

quiet=
if [ "$1" = -q ]; then
	quiet=1
	shift
fi
label=$1
shift
every=${PROGRESS_SECONDS:-10}
began=$(date +%s)
log=

elapsed() {
	now=$(($(date +%s) - began))
	printf '%dm%02ds' $((now / 60)) $((now % 60))
}

# The ticker runs beside the command, which stays in the foreground and so gets Ctrl-C. Its sleep must not hold our
# stdout open, or a reader of a pipe would wait for the end of the sleep.
tick() {
	while sleep "$every" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
		if [ -n "$log" ]; then
			echo "  $label: $(wc -l <"$log" | tr -d ' ') packages compiled, $(elapsed)" >&2
		else
			echo "  $label: still at work, $(elapsed)" >&2
		fi
	done
}

ticker=
finish() {
	[ -z "$ticker" ] || kill "$ticker" 2>/dev/null
	[ -z "$log" ] || rm -f "$log"
}
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM HUP

echo "$label ..." >&2
if [ -n "$quiet" ]; then
	log=$(mktemp) || exit 1
	tick &
	ticker=$!
	"$@" >"$log" 2>&1
	code=$?
	[ $code -eq 0 ] || tail -n 40 "$log" >&2
else
	tick &
	ticker=$!
	"$@"
	code=$?
fi
if [ $code -eq 0 ]; then
	echo "$label: done in $(elapsed)" >&2
else
	echo "$label: failed with exit code $code after $(elapsed)" >&2
fi
finish
exit $code
