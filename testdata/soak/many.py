import json
import os
import signal
import sys
import time


def child(work):
    if os.fork() == 0:
        work()
        os._exit(0)


def escape():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(60)


def hoard():
    kept = bytearray(30 << 20)
    time.sleep(60)
    del kept


do = json.load(sys.stdin)["do"]
if do == "leave":
    child(escape)
    child(lambda: time.sleep(60))
    print("{}")
elif do == "pool":
    for _ in range(4):
        child(lambda: None)
    for _ in range(4):
        os.wait()
    print("{}")
elif do == "crowd":
    for _ in range(20):
        child(lambda: time.sleep(60))
    time.sleep(60)
elif do == "hoard":
    for _ in range(4):
        child(hoard)
    time.sleep(60)
elif do == "sleep":
    child(escape)
    time.sleep(60)
