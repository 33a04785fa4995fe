"""Add or count business days.

Reads {"op", "start", "days"? or "end"?, "holidays"?, "weekend"?, "include_end"?} from stdin, writes
one JSON object. A business day is a day that is neither in the weekend nor a holiday.
"""

import json
import re
import sys
from datetime import date, timedelta

DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ONE_DAY = timedelta(days=1)
MAX_SPAN = 36600


class InputError(Exception):
    """A mistake in the input; the text tells the caller what to change."""


def shown(text):
    """A short, one-line, quoted form of a user's text for an error message."""
    return json.dumps(text if len(text) <= 60 else text[:60] + "...")


def parse_date(text, field):
    """A calendar date."""
    try:
        match = DATE.fullmatch(text)
        if not match:
            raise ValueError('write it like "2024-05-01"')
        return date(*map(int, match.groups()))
    except ValueError as error:
        raise InputError(f"{field}: {shown(text)} is not a date: {error}") from None


class Calendar:
    """Which days are business days."""

    def __init__(self, request):
        self.weekend = set(request.get("weekend", ("saturday", "sunday")))
        self.holidays = {
            parse_date(text, f"holidays[{index}]") for index, text in enumerate(request.get("holidays", []))
        }
        if self.weekend >= set(WEEKDAYS):
            raise InputError("weekend: leaves no working day; name at most six days")

    def in_weekend(self, day):
        """Whether a day lies in the weekend."""
        return WEEKDAYS[day.weekday()] in self.weekend

    def is_business_day(self, day):
        """Whether people work on a day."""
        return not self.in_weekend(day) and day not in self.holidays

    def holidays_between(self, first, last):
        """The holidays that took away a working day, both ends included."""
        return [day.isoformat() for day in sorted(self.holidays) if first <= day <= last and not self.in_weekend(day)]


def need(request, field, op):
    """A field that one operation needs."""
    if field not in request:
        raise InputError(f'{field}: is needed for op "{op}"')
    return request[field]


def add(request, calendar, start):
    """The day that lies a number of business days after (or before) the start."""
    days = int(need(request, "days", "add"))
    step = -ONE_DAY if days < 0 else ONE_DAY
    day, left = start, abs(days)
    try:
        while left:
            day += step
            left -= calendar.is_business_day(day)
    except OverflowError:
        raise InputError("days: the result lies outside the years 1 to 9999") from None
    first, last = (start + step, day) if days > 0 else (day, start + step) if days < 0 else (day, day)
    return {
        "op": "add",
        "result": day.isoformat(),
        "weekday": WEEKDAYS[day.weekday()],
        "is_business_day": calendar.is_business_day(day),
        "calendar_days": (day - start).days,
        "holidays_skipped": calendar.holidays_between(first, last) if days else [],
    }


def count(request, calendar, start):
    """How many business days lie between two days; the start counts, the end unless told otherwise."""
    end = parse_date(need(request, "end", "count"), "end")
    if end < start:
        raise InputError("end: lies before start; swap the two")
    if (end - start).days > MAX_SPAN:
        raise InputError("end: lies more than 100 years after start; choose a shorter span")
    total = (end - start).days + (1 if request.get("include_end", True) else 0)
    days = [start + ONE_DAY * index for index in range(total)]
    weekend = sum(calendar.in_weekend(day) for day in days)
    holidays = calendar.holidays_between(days[0], days[-1]) if days else []
    return {
        "op": "count",
        "business_days": total - weekend - len(holidays),
        "calendar_days": total,
        "weekend_days": weekend,
        "holidays_skipped": holidays,
    }


def answer_for(request):
    """The answer to one request."""
    calendar = Calendar(request)
    start = parse_date(request["start"], "start")
    return (add if request["op"] == "add" else count)(request, calendar, start)


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
        answer = answer_for(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(answer, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
