import json
import sys
import time

seconds = json.load(sys.stdin)["seconds"]
held = bytearray(20 << 20)
time.sleep(seconds)
print(json.dumps({"waited": seconds}))
