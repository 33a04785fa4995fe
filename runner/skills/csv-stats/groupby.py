"""Group the rows of a CSV text by one or two columns.

Reads {"csv", "by", "value"?, "order"?, "limit"?, "delimiter"?, "missing"?} from stdin, writes one
JSON object. Numbers are added up in decimal, so 0.1 + 0.2 is 0.3.
"""

import csv
import io
import json
import re
import sys
from decimal import Context, Decimal, getcontext

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
    """The column names and the data rows (line number, cells), all of one width."""
    rows = read_rows(request["csv"], request.get("delimiter", ","))
    if not rows:
        raise InputError("csv: holds no rows; give at least one line")
    width = len(rows[0][1])
    names = [cell or f"column_{index}" for index, cell in enumerate(rows[0][1], start=1)]
    seen = set()
    for name in names:
        if name in seen:
            raise InputError(f"csv: the column name {shown(name)} is used twice; rename one")
        seen.add(name)
    for line, cells in rows[1:]:
        if len(cells) != width:
            raise InputError(f"csv: line {line} has {len(cells)} fields where {width} are expected; quote fields that hold the delimiter")
    return names, rows[1:]


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


def column_index(names, name, field):
    """Where a named column is."""
    if name not in names:
        known = ", ".join(shown(known) for known in names[:20])
        raise InputError(f"{field}: no column {shown(name)}; the columns are {known}")
    return names.index(name)


def cell_number(cells, line, index, names, missing):
    """The number in the value column, or None where it is missing."""
    cell = cells[index]
    if not cell or cell in missing:
        return None
    value = parse_number(cell)
    if value is None:
        raise InputError(f'csv: line {line}: {shown(cell)} in column {shown(names[index])} is not a number; mend it or list it in "missing"')
    return value


def collect(request, names, rows):
    """The groups as key -> [row count, numbers]."""
    by = [column_index(names, name, "by") for name in request["by"]]
    if len(set(by)) < len(by):
        raise InputError("by: names one column twice; name two different columns")
    value = column_index(names, request["value"], "value") if "value" in request else None
    missing = {text.strip() for text in request.get("missing", [])}
    groups = {}
    for line, cells in rows:
        group = groups.setdefault(tuple(cells[index] for index in by), [0, []])
        group[0] += 1
        if value is not None:
            number = cell_number(cells, line, value, names, missing)
            if number is not None:
                group[1].append(number)
    return groups


def group_entry(key, count, numbers, with_value):
    """One group of the answer."""
    entry = {"key": list(key), "count": count}
    if with_value:
        total = sum(numbers, Decimal(0))
        entry["values"] = len(numbers)
        entry["sum"] = plain(total)
        entry["mean"] = plain(ROUNDED.plus(total / len(numbers))) if numbers else None
        entry["min"] = plain(min(numbers)) if numbers else None
        entry["max"] = plain(max(numbers)) if numbers else None
    return entry


def order_key(order):
    """The sort key for (key, (count, numbers)): by key, or largest count or sum first."""
    if order == "count":
        return lambda item: (-item[1][0], item[0])
    if order == "sum":
        return lambda item: (-sum(item[1][1], Decimal(0)), item[0])
    return lambda item: item[0]


def group(request):
    """The answer to one request."""
    order = request.get("order", "key")
    if order == "sum" and "value" not in request:
        raise InputError('order: "sum" needs "value", the column to add up')
    names, rows = read_table(request)
    ranked = sorted(collect(request, names, rows).items(), key=order_key(order))
    limit = int(request.get("limit", 50))
    groups = [group_entry(key, count, numbers, "value" in request) for key, (count, numbers) in ranked[:limit]]
    return {
        "by": request["by"],
        "value": request.get("value"),
        "rows": len(rows),
        "group_count": len(ranked),
        "groups": groups,
        "truncated": len(ranked) > limit,
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
    getcontext().prec = 300
    try:
        answer = group(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
