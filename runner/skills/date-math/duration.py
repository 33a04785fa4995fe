"""Differences of two instants, and ISO 8601 durations.

Reads {"op", "start"?, "end"?, "duration"?, "seconds"?} from stdin, writes one JSON object.
All arithmetic is in whole microseconds, so nothing is lost to floating point.
"""

import json
import re
import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,6}))?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
UNIX = re.compile(r"@(-?[0-9]{1,12})")
DURATION = re.compile(
    r"([+-])?P(?:([0-9]{1,6})Y)?(?:([0-9]{1,6})M)?(?:([0-9]{1,6})W)?(?:([0-9]{1,8})D)?"
    r"(T(?:([0-9]{1,9})H)?(?:([0-9]{1,10})M)?(?:([0-9]{1,12})(?:[.,]([0-9]{1,6}))?S)?)?"
)
UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000))
SECOND = 1_000_000
MAX_SECONDS = 10**12


class InputError(Exception):
    """A mistake in the input; the text tells the caller what to change."""


def shown(text):
    """A short, one-line, quoted form of a user's text for an error message."""
    return json.dumps(text if len(text) <= 60 else text[:60] + "...")


def parse_offset(text):
    """The time zone of "Z" or "+hh:mm", None where there is none."""
    if not text:
        return None
    if text == "Z":
        return timezone.utc
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    if int(text[-2:]) > 59 or minutes > 18 * 60:
        raise ValueError("the offset must lie between -18:00 and +18:00")
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def parse_instant(text, field):
    """A datetime; without an offset in the text it is naive."""
    try:
        unix = UNIX.fullmatch(text)
        if unix:
            return EPOCH + timedelta(seconds=int(unix.group(1)))
        match = INSTANT.fullmatch(text)
        if not match:
            raise ValueError('write it like "2024-05-01T13:30:00Z", "2024-05-01 13:30" or "@1714570200"')
        year, month, day, hour, minute, second = (int(part or "0") for part in match.groups()[:6])
        micro = int((match.group(7) or "").ljust(6, "0"))
        return datetime(year, month, day, hour, minute, second, micro, parse_offset(match.group(8)))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{field}: {shown(text)} is not a date and time: {error}") from None


def parse_duration(text):
    """(months, microseconds) of an ISO 8601 duration."""
    match = DURATION.fullmatch(text)
    if not match or text[-1] in "PT":
        raise InputError(f'duration: {shown(text)} is not an ISO 8601 duration; write it like "P1DT2H30M", "PT90S" or "P2W"')
    years, months, weeks, days = (int(part or "0") for part in match.groups()[1:5])
    hours, minutes, seconds = (int(part or "0") for part in match.groups()[6:9])
    micro = int((match.group(10) or "").ljust(6, "0"))
    total = (((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds
    sign = -1 if match.group(1) == "-" else 1
    return sign * (years * 12 + months), sign * (total * SECOND + micro)


def split(micro):
    """Days, hours, minutes of an amount, and the microseconds that remain."""
    parts = {}
    for name, size in UNITS:
        parts[name], micro = divmod(micro, size)
    return parts, micro


def seconds_text(micro):
    """Microseconds as seconds, without trailing zeros."""
    text = f"{micro // SECOND}.{micro % SECOND:06d}"
    return text.rstrip("0").rstrip(".")


def iso_text(micro, months=0):
    """An amount as an ISO 8601 duration."""
    sign = "-" if micro < 0 or months < 0 else ""
    parts, rest = split(abs(micro))
    years, months = divmod(abs(months), 12)
    date_part = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (parts["day"], "D")) if n)
    time_part = "".join(f"{n}{unit}" for n, unit in ((parts["hour"], "H"), (parts["minute"], "M")) if n)
    if rest:
        time_part += seconds_text(rest) + "S"
    if not date_part and not time_part:
        return "PT0S"
    return f"{sign}P{date_part}" + (f"T{time_part}" if time_part else "")


def human_text(micro, months=0):
    """An amount in words."""
    parts, rest = split(abs(micro))
    years, months_left = divmod(abs(months), 12)
    named = [(str(years), "year"), (str(months_left), "month")]
    named += [(str(count), name) for name, count in parts.items()] + [(seconds_text(rest), "second")]
    words = [f"{count} {name}" + ("" if count == "1" else "s") for count, name in named if count != "0"]
    text = ", ".join(words) or "0 seconds"
    return f"minus {text}" if micro < 0 or months < 0 else text


def total_seconds(micro):
    """Microseconds as a JSON number of seconds."""
    return micro // SECOND if micro % SECOND == 0 else micro / SECOND


def amount(micro, months=0):
    """The part of the answer that describes an amount of time."""
    return {
        "iso": iso_text(micro, months),
        "human": human_text(micro, months),
        "months": months,
        "total_seconds": None if months else total_seconds(micro),
    }


def need(request, field):
    """A field that the operation needs."""
    if field not in request:
        raise InputError(f'{field}: is needed for op "{request["op"]}"')
    return request[field]


def between(request):
    """The time from start to end."""
    start = parse_instant(need(request, "start"), "start")
    end = parse_instant(need(request, "end"), "end")
    if (start.tzinfo is None) != (end.tzinfo is None):
        raise InputError("end: start and end must both have an offset (such as Z), or neither")
    return amount((end - start) // timedelta(microseconds=1))


def add_months(moment, months):
    """A moment some months later; a day that the month lacks becomes its last day."""
    index = moment.year * 12 + moment.month - 1 + months
    year, month = index // 12, index % 12 + 1
    for day in range(moment.day, 27, -1):
        try:
            return moment.replace(year=year, month=month, day=day)
        except ValueError:
            continue
    return moment.replace(year=year, month=month)


def add(request):
    """Start plus duration: months first, then the exact time."""
    start = parse_instant(need(request, "start"), "start")
    months, micro = parse_duration(need(request, "duration"))
    try:
        result = add_months(start, months) + timedelta(microseconds=micro)
    except (ValueError, OverflowError):
        raise InputError("duration: the result lies outside the years 1 to 9999") from None
    return {"result": result.isoformat(), **amount(micro, months)}


def parse(request):
    """An ISO 8601 duration taken apart."""
    months, micro = parse_duration(need(request, "duration"))
    return amount(micro, months)


def format_seconds(request):
    """A number of seconds as a duration."""
    seconds = Decimal(need(request, "seconds"))
    if abs(seconds) > MAX_SECONDS:
        raise InputError(f"seconds: must lie between -{MAX_SECONDS} and {MAX_SECONDS}")
    return amount(int((seconds * SECOND).to_integral_value()))


OPERATIONS = {"between": between, "add": add, "parse": parse, "format": format_seconds}


def answer_for(request):
    """The answer to one request."""
    return {"op": request["op"], **OPERATIONS[request["op"]](request)}


def read_request():
    """The one JSON object on stdin."""
    try:
        request = json.loads(sys.stdin.buffer.read(), parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise InputError("input: must be one JSON object")
    return request


def main():
    """Read a request, write the answer; 0 or 1 is the exit code."""
    try:
        answer = answer_for(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(answer, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
