"""Compare two JSON documents: an RFC 6902 JSON Patch and a summary for people.

Reads {"before", "after"} (each the text of a JSON document) from stdin, writes one JSON object.
Numbers are never turned into floats: they are compared by their digits and written as they came.
"""

import json
import sys

MAX_DEPTH = 100
MAX_OPERATIONS = 300
MAX_BYTES = 40000


class InputError(Exception):
    """A mistake in the input; the text tells the caller what to change."""


class Number:
    """A JSON number: its text, and the exact value as (sign, digits, exponent)."""

    def __init__(self, text):
        self.text = text
        mantissa, _, exponent = text.lower().partition("e")
        whole, _, fraction = mantissa.lstrip("-").partition(".")
        digits = (whole + fraction).lstrip("0")
        short = digits.rstrip("0")
        power = int(exponent or "0") - len(fraction) + len(digits) - len(short)
        self.value = ("-" if text[0] == "-" else "+", short, power) if short else ("+", "0", 0)


def depth_of(text):
    """How deep the brackets outside strings are nested."""
    depth = deepest = 0
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def unique_object(pairs):
    """An object whose keys all differ."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object has the same key twice")
    return result


def no_constant(name):
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(f"{name} is not JSON")


def parse(text, field):
    """The document in one field of the request."""
    if depth_of(text) > MAX_DEPTH:
        raise InputError(f"{field}: nested deeper than {MAX_DEPTH} levels; compare a smaller part")
    try:
        return json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=no_constant, object_pairs_hook=unique_object
        )
    except ValueError as error:
        raise InputError(f"{field}: is not a JSON document: {error}") from None


def write(value):
    """A document as JSON text, its numbers as they came."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, list):
        return "[" + ", ".join(map(write, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write(key)}: {write(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def canonical(value):
    """A form that is equal for equal documents: key order and the spelling of numbers do not count."""
    if isinstance(value, Number):
        return ("number", value.value)
    if isinstance(value, list):
        return ("list", tuple(map(canonical, value)))
    if isinstance(value, dict):
        return ("object", tuple((key, canonical(value[key])) for key in sorted(value)))
    return (type(value).__name__, value)


def pointer(path, step):
    """A JSON pointer one step further."""
    return f"{path}/{str(step).replace('~', '~0').replace('/', '~1')}"


def common_pairs(old, new):
    """Index pairs of a longest common subsequence of two lists of canonical forms."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = middle_pairs(old[start:len(old) - tail], new[start:len(new) - tail])
    pairs = [(index, index) for index in range(start)]
    pairs += [(start + left, start + right) for left, right in middle]
    pairs += [(len(old) - back, len(new) - back) for back in range(tail, 0, -1)]
    return pairs


def middle_pairs(old, new):
    """common_pairs by dynamic programming; the forms are numbered first to compare quickly."""
    numbers = {}
    left = [numbers.setdefault(form, len(numbers)) for form in old]
    right = [numbers.setdefault(form, len(numbers)) for form in new]
    table = [[0] * (len(right) + 1)]
    for mine in reversed(left):
        below, row = table[-1], [0] * (len(right) + 1)
        for index in range(len(right) - 1, -1, -1):
            row[index] = below[index + 1] + 1 if mine == right[index] else max(below[index], row[index + 1])
        table.append(row)
    table.reverse()
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


class Differ:
    """Collects the operations that turn one document into the other, in the order to apply them."""

    def __init__(self):
        self.operations = []

    def note(self, op, path, old=None, new=None):
        """Add one operation."""
        self.operations.append((op, path, old, new))

    def compare(self, old, new, path=""):
        """Compare two values at one place."""
        if canonical(old) == canonical(new):
            return
        if isinstance(old, dict) and isinstance(new, dict):
            self.compare_objects(old, new, path)
        elif isinstance(old, list) and isinstance(new, list):
            self.compare_lists(old, new, path)
        else:
            self.note("replace", path, old, new)

    def compare_objects(self, old, new, path):
        """Removed, then changed, then added members, each in document order."""
        for key in old:
            if key not in new:
                self.note("remove", pointer(path, key), old=old[key])
        for key in old:
            if key in new:
                self.compare(old[key], new[key], pointer(path, key))
        for key in new:
            if key not in old:
                self.note("add", pointer(path, key), new=new[key])

    def compare_lists(self, old, new, path):
        """Walk from one common element to the next and mend the gap before each."""
        pairs = common_pairs(list(map(canonical, old)), list(map(canonical, new)))
        left = right = 0
        for next_left, next_right in pairs + [(len(old), len(new))]:
            self.mend_gap(old[left:next_left], new[right:next_right], path, right)
            left, right = next_left + 1, next_right + 1

    def mend_gap(self, old, new, path, index):
        """Turn the elements of one gap, which begins at index, into the new ones."""
        shared = min(len(old), len(new))
        for offset in range(shared):
            self.compare(old[offset], new[offset], pointer(path, index + offset))
        for value in old[shared:]:
            self.note("remove", pointer(path, index + shared), old=value)
        for offset in range(shared, len(new)):
            self.note("add", pointer(path, index + offset), new=new[offset])


def brief(value):
    """A value in at most about 60 characters."""
    text = write(value)
    return text if len(text) <= 60 else text[:57] + "..."


def describe(operation):
    """One operation as a line for people."""
    op, path, old, new = operation
    place = path if len(path) <= 120 else path[:117] + "..."
    place = place or "(the whole document)"
    if op == "add":
        return f"added {place}: {brief(new)}"
    if op == "remove":
        return f"removed {place}: was {brief(old)}"
    return f"changed {place}: {brief(old)} -> {brief(new)}"


def patch_entry(operation):
    """One operation as a member of the JSON Patch."""
    op, path, _, new = operation
    entry = {"op": op, "path": path}
    if op != "remove":
        entry["value"] = new
    return entry


def diff(request):
    """The answer to one request."""
    differ = Differ()
    differ.compare(parse(request["before"], "before"), parse(request["after"], "after"))
    counts = {"add": 0, "remove": 0, "replace": 0}
    for operation in differ.operations:
        counts[operation[0]] += 1
    patch, summary, size = [], [], 0
    for operation in differ.operations[:MAX_OPERATIONS]:
        entry, line = patch_entry(operation), describe(operation)
        size += len((write(entry) + write(line)).encode("utf-8", "backslashreplace")) + 4
        if size > MAX_BYTES:
            break
        patch.append(entry)
        summary.append(line)
    return {
        "equal": not differ.operations,
        "counts": {op: Number(str(count)) for op, count in counts.items()},
        "patch": patch,
        "summary": summary,
        "truncated": len(patch) < len(differ.operations),
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
        answer = diff(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(write(answer).encode("utf-8", "backslashreplace") + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
