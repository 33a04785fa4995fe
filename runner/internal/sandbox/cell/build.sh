#!/bin/sh
# Builds the cell's library: build.sh OUT. It has the shim's own code for plan, layers and status, so that there is one
# owner of each, and needs no Python to be built (python.h). borrow_sibling returns by its own hand, which a shadow stack takes for
# an attack: the library must not say that it can do with one.
set -eu
out=$1
cd "$(dirname "$0")"
exec "${CC:-gcc}" -std=gnu11 -D_GNU_SOURCE -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror \
	-fstack-protector-strong -fcf-protection=none -o "$out" ./*.c ../shim/plan.c ../shim/landlock.c ../shim/confine.c ../shim/status.c ../shim/close.c \
	../shim/room.c ../shim/supervise.c ../shim/descend.c ../shim/cgroup.c
