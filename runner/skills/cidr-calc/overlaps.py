"""Which networks of a list overlap.

Reads {"networks"} from stdin, writes one JSON object. Two networks overlap when they are equal or
one contains the other; IPv4 and IPv6 never overlap.
"""

import ipaddress
import json
import sys

MAX_PAIRS = 200


class InputError(Exception):
    """A mistake in the input; the text tells the caller what to change."""


def parse_network(text, field):
    """A network; bits after the prefix may be set."""
    try:
        if "%" in text:
            raise ValueError("zone names are not supported")
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InputError(f'{field}: {json.dumps(text[:60])} is not a network; write it like "10.0.0.0/24" or "2001:db8::/48"') from None


def address_text(address):
    """An address in its usual form (the same on every Python version)."""
    number = int(address)
    if address.version == 6 and number >> 32 == 0xFFFF:
        return f"::ffff:{ipaddress.IPv4Address(number & 0xFFFFFFFF)}"
    return str(address)


def network_text(network):
    """A network in its usual form."""
    return f"{address_text(network.network_address)}/{network.prefixlen}"


def relation(one, other):
    """How two overlapping networks relate."""
    if one == other:
        return "equal"
    return "a_contains_b" if one.prefixlen < other.prefixlen else "b_contains_a"


def answer_for(request):
    """The answer to one request."""
    networks = [parse_network(text, f"networks[{index}]") for index, text in enumerate(request["networks"])]
    pairs, count = [], 0
    for index, one in enumerate(networks):
        for place in range(index + 1, len(networks)):
            other = networks[place]
            if one.version != other.version or not one.overlaps(other):
                continue
            count += 1
            if count <= MAX_PAIRS:
                pairs.append({
                    "a": network_text(one), "a_index": index,
                    "b": network_text(other), "b_index": place,
                    "relation": relation(one, other),
                })
    return {"network_count": len(networks), "pair_count": count, "pairs": pairs, "truncated": count > MAX_PAIRS}


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
