import json
import sys

print(json.dumps({"keys": len(json.load(sys.stdin))}))
