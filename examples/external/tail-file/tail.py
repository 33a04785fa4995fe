"""The last lines of a file below the mounted log folder. The sandbox lets it read nothing else, whatever the name says."""
import json
import sys
from collections import deque

args = json.load(sys.stdin)
with open("mounts/logs/" + args["file"], encoding="utf-8", errors="replace") as f:
    last = deque(f, maxlen=args.get("lines", 20))
print(json.dumps({"lines": [line.rstrip("\n")[:1000] for line in last]}))
