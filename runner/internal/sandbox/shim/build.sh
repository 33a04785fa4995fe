#!/bin/sh
# Builds the shim: build.sh OUT. Used by scripts/build, the image and the tests, so that all have the same program.
# Static, because it is executed under RLIMIT_AS and must not depend on what is in the image; CC may name a cross compiler.
set -eu
out=$1
cd "$(dirname "$0")"
exec "${CC:-gcc}" -std=gnu11 -D_GNU_SOURCE -O2 -static -Wall -Wextra -Werror -fstack-protector-strong -o "$out" ./*.c
