import ctypes
import json
import os
import signal
import sys
import time

do = json.load(sys.stdin)["do"]
if do == "ok":
    print('{"n":1}')
elif do == "error":
    sys.exit(3)
elif do == "nonsense":
    print("{}{}")
elif do == "flood":
    sys.stdout.write("x" * 70000)
    sys.stdout.flush()
elif do == "noise":
    sys.stderr.write("x" * 300000)
    print("{}")
elif do == "memory":
    bytearray(1 << 31)
elif do == "burn":
    while True:
        pass
elif do == "sleep":
    time.sleep(60)
elif do == "foreign call":
    ctypes.CDLL(None).syscall(0x40000000 + 39)
elif do == "signal":
    os.kill(os.getpid(), signal.SIGTERM)
elif do == "fill":
    for i in range(6):
        open(f"f{i}", "wb").write(bytes(1 << 20))
    time.sleep(60)
elif do == "litter":
    os.makedirs("a/b/c", mode=0o300)
    open("a/b/c/f", "w").close()
    print("{}")
