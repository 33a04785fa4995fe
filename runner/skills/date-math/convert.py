"""Convert a date and time between time zones.

Reads {"datetime", "from"?, "to", "choose"?} from stdin, writes one JSON object. Zones are IANA
names looked up in the system's time zone database.
"""

import json
import re
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,6}))?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
UNIX = re.compile(r"@(-?[0-9]{1,12})")
ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
NOT_ZONES = re.compile(r"localtime|posixrules|Factory|posix/.*|right/.*")


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


def find_zone(name):
    """A time zone, or None where the database has no such zone."""
    if name in ("UTC", "Etc/UTC", "Z"):
        return timezone.utc
    if not ZONE_NAME.fullmatch(name) or NOT_ZONES.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, ImportError):
        return None


def zone_error(name):
    """What to say about an unknown zone."""
    if find_zone("Europe/London") is None:
        return f"time zone {shown(name)} cannot be looked up: no time zone database is installed here; only UTC works"
    return f'unknown time zone {shown(name)}; use an IANA name such as "Europe/Berlin", "America/New_York" or "UTC"'


def resolve(naive, zone, later):
    """A wall clock time in a zone, and whether it exists once, twice or never."""
    first, second = naive.replace(tzinfo=zone, fold=0), naive.replace(tzinfo=zone, fold=1)
    if first.utcoffset() == second.utcoffset():
        return first, "unique"
    back = first.astimezone(timezone.utc).astimezone(zone).replace(tzinfo=None, fold=0)
    if back != naive:
        return first, "nonexistent"
    return (second if later else first), "ambiguous"


def read_instant(request):
    """The instant that the request means, and its wall clock status."""
    value = parse_instant(request["datetime"], "datetime")
    if value.tzinfo is not None:
        if "from" in request:
            raise InputError('from: leave it out, "datetime" already has an offset')
        return value, "unique"
    if "from" not in request:
        raise InputError('from: "datetime" has no offset; name its time zone here, or add "Z" or "+02:00" to it')
    zone = find_zone(request["from"])
    if zone is None:
        raise InputError(f"from: {zone_error(request['from'])}")
    return resolve(value, zone, request.get("choose", "earlier") == "later")


def offset_text(offset):
    """A UTC offset as +hh:mm (with seconds for some dates before 1900)."""
    seconds = offset.days * 86400 + offset.seconds
    sign, seconds = ("-", -seconds) if seconds < 0 else ("+", seconds)
    text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    return f"{text}:{seconds % 60:02d}" if seconds % 60 else text


def zone_entry(instant, name):
    """The instant in one zone, or an error object."""
    zone = find_zone(name)
    if zone is None:
        return {"zone": name, "error": zone_error(name)}
    local = instant.astimezone(zone)
    return {
        "zone": name,
        "local": local.isoformat(),
        "weekday": WEEKDAYS[local.weekday()],
        "abbreviation": local.tzname(),
        "utc_offset": offset_text(local.utcoffset()),
        "dst": bool(local.dst()),
    }


def convert(request):
    """The answer to one request."""
    try:
        instant, status = read_instant(request)
        utc = instant.astimezone(timezone.utc)
        results = [zone_entry(utc, name) for name in request["to"]]
    except OverflowError:
        raise InputError("datetime: the result lies outside the years 1 to 9999") from None
    since = utc - EPOCH
    return {
        "utc": utc.replace(tzinfo=None).isoformat() + "Z",
        "unix_seconds": since.days * 86400 + since.seconds,
        "wall_clock": status,
        "results": results,
        "errors": sum("error" in entry for entry in results),
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
        answer = convert(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(answer, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
