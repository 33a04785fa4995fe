"""Cluster the lines of a log by template and count them.

Reads {"log", "top"?} from stdin, writes one JSON object. What varies from line to line (times,
numbers, addresses, identifiers, quoted strings) is masked; lines with the same rest are one cluster.
"""

import json
import re
import sys

MAX_SHOWN = 300
LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "NONE")
LEVEL_NAMES = {
    "fatal": "FATAL", "critical": "FATAL", "crit": "FATAL", "panic": "FATAL", "emerg": "FATAL", "alert": "FATAL",
    "error": "ERROR", "err": "ERROR", "severe": "ERROR",
    "warning": "WARN", "warn": "WARN",
    "info": "INFO", "notice": "INFO",
    "debug": "DEBUG", "trace": "TRACE",
}
NAMES = "|".join(LEVEL_NAMES)
LEVEL_FIELD = re.compile(rf"\b(?:level|lvl|severity)=\"?({NAMES})\b", re.ASCII | re.IGNORECASE)
LEVEL_UPPER = re.compile(rf"\b({NAMES.upper()})\b", re.ASCII)
LEVEL_MARKED = re.compile(rf"\[({NAMES})\]|(?:^|\s)({NAMES}):", re.ASCII | re.IGNORECASE)
LEVEL_KLOG = re.compile(r"([IWEF])[0-9]{4} ")
PINO_NAMES = {"10": "TRACE", "20": "DEBUG", "30": "INFO", "40": "WARN", "50": "ERROR", "60": "FATAL"}
KLOG_NAMES = {"I": "INFO", "W": "WARN", "E": "ERROR", "F": "FATAL"}
LEVEL_WINDOW = 120

TIME = r"""
    [0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[ ]?[+-][0-9]{2}:?[0-9]{2}\b)?
  | [0-9]{4}/[0-9]{2}/[0-9]{2}[ ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?
  | [0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[ ][+-][0-9]{4})?
  | \b[A-Z][a-z]{2}[ ]{1,2}[0-9]{1,2}[ ][0-9]{2}:[0-9]{2}:[0-9]{2}
  | \b[IWEF][0-9]{4}[ ][0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{1,9}
  | \b[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?\b
"""
TIMESTAMP = re.compile(TIME, re.ASCII | re.VERBOSE)
VARIABLE = re.compile(
    rf"""
    (?P<time>{TIME})
  | (?P<uuid>\b[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}\b)
  | (?P<str>"(?:[^"\\]|\\.)*"|(?<!\w)'(?:[^'\\]|\\.)*'(?!\w))
  | (?P<mac>\b(?:[0-9a-f]{{2}}:){{5}}[0-9a-f]{{2}}\b)
  | (?P<ip>\b[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}(?:[:/][0-9]{{1,5}})?\b
      | (?<![\w:])(?:[0-9a-f]{{1,4}}:){{3,7}}[0-9a-f]{{1,4}}(?![\w:])
      | (?<![\w:])(?:[0-9a-f]{{1,4}}(?::[0-9a-f]{{1,4}}){{0,6}})?::(?:[0-9a-f]{{1,4}}(?::[0-9a-f]{{1,4}}){{0,6}})?(?![\w:]))
  | (?P<hex>\b0x[0-9a-f]+\b|\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{{7,}}\b)
  | (?P<num>[0-9]+(?:[.,][0-9]+)*)
    """,
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)
QUOTED_MESSAGE = re.compile(r'\b(msg|message|event|err|error)="((?:[^"\\]|\\.)*)"', re.ASCII)
MESSAGE_KEYS = ("msg", "message", "event", "error", "err")
TIME_KEYS = ("time", "timestamp", "ts", "@timestamp")
LEVEL_KEYS = ("level", "lvl", "severity")


class InputError(Exception):
    """A mistake in the input; the text tells the caller what to change."""


def cut(text):
    """A text of bounded length."""
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def mask(text):
    """The text with everything that varies replaced by its kind, and single spaces."""
    text = QUOTED_MESSAGE.sub(r"\1=\2", text)
    masked = VARIABLE.sub(lambda match: f"<{match.lastgroup}>", text)
    return " ".join(masked.split())


def find_level(text):
    """The level that a plain line names near its start, or NONE."""
    head = text[:LEVEL_WINDOW]
    klog = LEVEL_KLOG.match(head)
    if klog:
        return KLOG_NAMES[klog.group(1)]
    for pattern in (LEVEL_FIELD, LEVEL_UPPER, LEVEL_MARKED):
        match = pattern.search(head)
        if match:
            return LEVEL_NAMES[match.group(match.lastindex).lower()]
    return "NONE"


def read_plain(line):
    """(time, level, template) of a line of text."""
    match = TIMESTAMP.search(line)
    time = match.group() if match else None
    rest = line[match.end():] if match and not line[:match.start()].strip(" [") else line
    return time, find_level(line), mask(rest.lstrip(" ]:-"))


def first_of(record, keys):
    """The first of these keys that holds a text or a number, as text, or None."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return str(value)
    return None


def read_json(line):
    """(time, level, template) of a line that is a JSON object, else None."""
    try:
        record = json.loads(line, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    name = (first_of(record, LEVEL_KEYS) or "").lower()
    level = LEVEL_NAMES.get(name) or PINO_NAMES.get(name, "NONE")
    message = first_of(record, MESSAGE_KEYS)
    template = mask(message) if message else "{" + ", ".join(sorted(record)) + "}"
    return first_of(record, TIME_KEYS), level, template


def read_line(line):
    """(time, level, template) of any line."""
    record = read_json(line) if line.startswith("{") else None
    return record or read_plain(line)


def add_line(clusters, number, line):
    """Count one line in its cluster."""
    time, level, template = read_line(line)
    cluster = clusters.setdefault((level, template), {
        "template": cut(template), "level": level, "count": 0,
        "first_time": None, "last_time": None, "first_line": number, "last_line": number, "sample": cut(line),
    })
    cluster["count"] += 1
    cluster["last_line"] = number
    if time is not None:
        cluster["first_time"] = cluster["first_time"] or cut(time)
        cluster["last_time"] = cut(time)


def triage(request):
    """The answer to one request."""
    clusters = {}
    continued = total = 0
    for number, line in enumerate(request["log"].replace("\r\n", "\n").split("\n"), start=1):
        if not line.strip():
            continue
        total += 1
        if line[0] in " \t" and clusters:
            continued += 1
        else:
            add_line(clusters, number, line.strip())
    levels = dict.fromkeys(LEVELS, 0)
    for cluster in clusters.values():
        levels[cluster["level"]] += cluster["count"]
    ranked = sorted(clusters.values(), key=lambda c: (-c["count"], LEVELS.index(c["level"]), c["first_line"]))
    top = int(request.get("top", 10))
    return {
        "lines": total,
        "continuation_lines": continued,
        "levels": {level: count for level, count in levels.items() if count},
        "cluster_count": len(ranked),
        "clusters": ranked[:top],
        "truncated": len(ranked) > top,
    }


def read_request():
    """The one JSON object on stdin."""
    try:
        request = json.loads(sys.stdin.buffer.read())
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise InputError("input: must be one JSON object")
    return request


def main():
    """Read a request, write the answer; 0 or 1 is the exit code."""
    try:
        answer = triage(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
