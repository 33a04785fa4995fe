# Another run, at work while the attacks are made. It answers each ping with what has changed about it; a signal is
# told at once. Its secret is in its environment, its memory and its folder.
import os, resource, signal, sys

secret = os.environ["SECRET"]
changes = []
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, 32, 33}:
    signal.signal(number, lambda n, _: changes.append(f"signal {n}"))


def state():
    return {
        "limits": [resource.getrlimit(r) for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_CPU)],
        "processors": sorted(os.sched_getaffinity(0)), "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "schedule": os.sched_getscheduler(0), "folder": sorted(n for n in os.listdir(".") if not n.startswith("ping-")),
        "secret": open("secret").read(),
    }


open("secret", "w").write(secret)
before = state()
print("up", os.getpid(), file=sys.stderr, flush=True)
while True:
    sum(range(20_000))  # busy
    for name in os.listdir("."):
        if name.startswith("ping-"):
            os.unlink(name)
            now = state()
            changes += [f"{k}: {before[k]} -> {now[k]}" for k in before if before[k] != now[k]]
            before = now
            print("pong", "; ".join(changes), file=sys.stderr, flush=True)
            changes.clear()
    signal.sigtimedwait([], .005)
