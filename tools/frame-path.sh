#!/bin/sh
# Prints the files that run for each frame of a live watch, in two lists: from the socket to Delivery.Offer, and from there
# to the next consumer. A file counts if more of its statements run with 400 frames than with 100.
#
#	frame-path.sh          in the root of the repository
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

go test -c -covermode=count -coverpkg=./... -o "$work/test" .
for frames in 100 400; do
	"$work/test" -test.run '^$' -test.bench '^BenchmarkLiveFrames$' -test.benchtime "${frames}x" \
		-test.coverprofile "$work/$frames" >/dev/null
done

# A line is FILE:RANGE STATEMENTS COUNT. 300 frames more run a block of their path at least 300 times more; a hundred is
# enough to tell that from a timer or a batch.
module=$(go list -m)
awk -v module="$module/" '
	FNR == 1 { run++; next }
	run == 1 { few[$1] = $3; next }
	$3 - few[$1] >= 100 { sub(module, "", $1); sub(":.*", "", $1); print $1 }
' "$work/100" "$work/400" | sort -u >"$work/files"

after='^internal/(record|checkpoint)/|^internal/delivery/'
before='^internal/delivery/(queue|fifo)\.go$'
{
	grep -vE "$after" "$work/files"
	grep -E "$before" "$work/files"
} | sort >"$work/to-offer"
grep -vxFf "$work/to-offer" "$work/files" >"$work/from-offer" || true

echo "From the socket to Delivery.Offer: $(wc -l <"$work/to-offer") files"
sed 's/^/  /' "$work/to-offer"
echo "From there to the next consumer: $(wc -l <"$work/from-offer") files"
sed 's/^/  /' "$work/from-offer"
