"""What the first fork of every cell runs, so that the later ones know which pages of memory a run is going to use (hot.go).

It does what nearly every script does: it reads JSON, computes a little and answers, with what the interpreter and the
modules of the skill have brought along. It never sees a line of the skill, and no run sees anything of it.
"""

import sys


class Counter:
    def __init__(self, start=0):
        self.count, self.names = start, {}

    def add(self, name, *more, **options):
        self.count += 1
        self.names[name] = [*more, options]
        return self.count

    def __repr__(self):
        return f"{type(self).__name__}({self.count!r})"


def work(value):
    counter = Counter()
    for name, item in sorted(value.items(), key=lambda pair: pair[0]):
        counter.add(name, item, kind=str(item).strip().lower().split(","), found=name in counter.names)
    try:
        counter.names["nowhere"]
    except KeyError as error:
        counter.add(repr(error), len(counter.names), sum(range(3)), round(2.5, 1), "%s-%d" % ("a", 1), "{:>4}".format(7))
    return {"count": counter.count, "names": {name: [str(v) for v in values] for name, values in counter.names.items()}}


class Last:
    """What is finalized when the run is over: nearly all that its end needs has been used by then."""

    def __del__(self, stdin=sys.stdin, stdout=sys.stdout):
        print("the rehearsal ends", file=stdout, flush=True)
        stdin.read()


last = Last()
line = sys.stdin.readline()
if "json" in sys.modules:
    import json

    json.dump(work(json.loads(line)), sys.stdout, indent=1)
    answer = json.dumps(work(json.loads(line)), sort_keys=True)
else:
    answer = repr(work({"a": 1, "b": [1, 2.5, None, True, "text"]}))
print()
print(answer)
