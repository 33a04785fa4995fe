#!/bin/sh
# Builds the cell's library: build.sh OUT. It has the shim's own code for plan, layers and status, so that there is one
# owner of each, and uses only Python's limited API, so that one file serves 3.11 and all later versions. The headers of
# any of these will do; PYTHON_INCLUDE may name them.
set -eu
out=$1
cd "$(dirname "$0")"
include=${PYTHON_INCLUDE:-}
for folder in /usr/include/python3.* /usr/local/include/python3.*; do
	[ -n "$include" ] || [ ! -e "$folder/Python.h" ] || include=$folder
done
[ -n "$include" ] || { echo "no Python.h: install python3-dev, or set PYTHON_INCLUDE" >&2; exit 1; }
exec "${CC:-gcc}" -std=gnu11 -D_GNU_SOURCE -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror \
	-fstack-protector-strong -isystem "$include" -o "$out" \
	./*.c ../shim/plan.c ../shim/landlock.c ../shim/confine.c ../shim/status.c ../shim/close.c
