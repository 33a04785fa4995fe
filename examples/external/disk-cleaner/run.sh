#!/bin/bash
# One program takes the place of the other, so one process is enough.
exec python3 -E -s -B "${0%/*}/clean.py"
