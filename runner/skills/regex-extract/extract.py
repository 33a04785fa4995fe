"""All matches of a regular expression in a text, with groups and positions.

Reads {"pattern", "text", "flags"?, "limit"?} from stdin, writes one JSON object. A pattern that
backtracks without end is stopped by the CPU limit of the sandbox.
"""

import json
import re
import sys

MAX_BYTES = 40000
FLAGS = {
    "ignorecase": re.IGNORECASE,
    "multiline": re.MULTILINE,
    "dotall": re.DOTALL,
    "verbose": re.VERBOSE,
    "ascii": re.ASCII,
}


class InputError(Exception):
    """A mistake in the input; the text tells the caller what to change."""


def compile_pattern(pattern, names):
    """The compiled pattern, or an error that says what is wrong with it."""
    flags = re.RegexFlag(0)
    for name in names:
        flags |= FLAGS[name]
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        detail = " ".join(str(error).split()) or "nested too deeply"
        raise InputError(f"pattern: is not a valid Python regular expression: {detail}") from None


def group_entry(match, index):
    """One group of a match, or None where the group took no part."""
    start, end = match.span(index)
    if start < 0:
        return None
    return {"text": match.group(index), "start": start, "end": end}


def match_entry(match):
    """One match of the answer."""
    return {
        "text": match.group(),
        "start": match.start(),
        "end": match.end(),
        "line": match.string.count("\n", 0, match.start()) + 1,
        "groups": [group_entry(match, index) for index in range(1, match.re.groups + 1)],
        "named": {name: match.group(name) for name in match.re.groupindex},
    }


def encode(value):
    """JSON text as bytes; a lone surrogate stays an escape."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def extract(request):
    """The answer to one request."""
    pattern = compile_pattern(request["pattern"], request.get("flags", []))
    limit = int(request.get("limit", 50))
    matches, count, size = [], 0, 0
    for match in pattern.finditer(request["text"]):
        count += 1
        if count > limit or size > MAX_BYTES:
            continue
        entry = match_entry(match)
        size += len(encode(entry)) + 2
        if size <= MAX_BYTES:
            matches.append(entry)
    return {
        "count": count,
        "group_count": pattern.groups,
        "matches": matches,
        "truncated": len(matches) < count,
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
        answer = extract(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(encode(answer) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
