"""Summary statistics of every column of a CSV text.

Reads {"csv", "delimiter"?, "header"?, "missing"?, "top"?} from stdin, writes one JSON object.
Numbers are added up in decimal, so 0.1 + 0.2 is 0.3.
"""

import csv
import io
import json
import re
import sys
from decimal import Context, Decimal, getcontext

MAX_COLUMNS = 60
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")
ROUNDED = Context(prec=12)


class InputError(Exception):
    """A mistake in the input; the text tells the caller what to change."""


def shown(text):
    """A short, one-line, quoted form of a user's text for an error message."""
    return json.dumps(text if len(text) <= 60 else text[:60] + "...")


def read_rows(text, delimiter):
    """The rows that are not blank, as (line number, stripped cells)."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = []
    try:
        for cells in reader:
            if cells:
                rows.append((reader.line_num, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise InputError(f"csv: line {reader.line_num}: {error}; check the quotes") from None
    return rows


def read_table(request):
    """The column names and the data rows, all of one width."""
    rows = read_rows(request["csv"], request.get("delimiter", ","))
    if not rows:
        raise InputError("csv: holds no rows; give at least one line")
    width = len(rows[0][1])
    names = [f"column_{index}" for index in range(1, width + 1)]
    if request.get("header", True):
        names = [cell or name for cell, name in zip(rows[0][1], names)]
        rows = rows[1:]
    seen = set()
    for name in names:
        if name in seen:
            raise InputError(f"csv: the column name {shown(name)} is used twice; rename one")
        seen.add(name)
    for line, cells in rows:
        if len(cells) != width:
            raise InputError(f"csv: line {line} has {len(cells)} fields where {width} are expected; quote fields that hold the delimiter")
    return names, [cells for _, cells in rows]


def parse_number(text):
    """The number that a cell holds, or None."""
    if len(text) <= 40 and NUMBER.fullmatch(text):
        return Decimal(text)
    return None


def plain(value):
    """A decimal as a JSON number: whole numbers stay exact, others become the nearest float."""
    if value == value.to_integral_value() and abs(value) < 10**30:
        return int(value)
    return float(value)


def number_summary(values):
    """min, max, sum, mean, median and sample standard deviation."""
    ordered = sorted(values)
    count = len(ordered)
    total = sum(ordered, Decimal(0))
    mean = total / count
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    stdev = None
    if count > 1:
        squares = sum(((value - mean) ** 2 for value in ordered), Decimal(0))
        stdev = plain(ROUNDED.plus((squares / (count - 1)).sqrt()))
    return {
        "min": plain(ordered[0]),
        "max": plain(ordered[-1]),
        "sum": plain(total),
        "mean": plain(ROUNDED.plus(mean)),
        "median": plain(median),
        "stdev": stdev,
    }


def top_values(cells, limit):
    """The most frequent values; ties in alphabetical order."""
    counts = {}
    for cell in cells:
        counts[cell] = counts.get(cell, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count} for value, count in ranked[:limit]]


def column_summary(name, cells, missing, top):
    """All that is known about one column."""
    present = [cell for cell in cells if cell and cell not in missing]
    numbers = [value for value in map(parse_number, present) if value is not None]
    summary = {"name": name, "type": "text", "count": len(present), "missing": len(cells) - len(present)}
    if not present:
        summary.update(type="empty", distinct=0)
    elif len(numbers) == len(present):
        summary.update(type="number", distinct=len(set(numbers)), **number_summary(numbers))
    else:
        summary.update(distinct=len(set(present)), numeric_values=len(numbers), top=top_values(present, top))
    return summary


def summarise(request):
    """The answer to one request."""
    names, rows = read_table(request)
    missing = {text.strip() for text in request.get("missing", [])}
    top = int(request.get("top", 5))
    columns = [
        column_summary(name, [cells[index] for cells in rows], missing, top)
        for index, name in enumerate(names[:MAX_COLUMNS])
    ]
    return {"rows": len(rows), "column_count": len(names), "columns": columns, "truncated": len(names) > MAX_COLUMNS}


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
    getcontext().prec = 300
    try:
        answer = summarise(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
