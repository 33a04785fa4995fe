"""Which addresses lie in which networks.

Reads {"addresses", "networks"} from stdin, writes one JSON object. IPv4 addresses are only looked
up in IPv4 networks and IPv6 addresses only in IPv6 networks.
"""

import ipaddress
import json
import sys

MAX_LISTED = 8


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


def parse_address(text, field):
    """One address."""
    try:
        if "%" in text:
            raise ValueError("zone names are not supported")
        return ipaddress.ip_address(text)
    except ValueError:
        raise InputError(f'{field}: {json.dumps(text[:60])} is not an address; write it like "10.0.0.7" or "2001:db8::7"') from None


def membership(address, networks):
    """The networks that hold one address, the most specific first."""
    holding = [network for network in networks if network.version == address.version and address in network]
    holding.sort(key=lambda network: -network.prefixlen)
    return {
        "address": address_text(address),
        "match_count": len(holding),
        "networks": [network_text(network) for network in holding[:MAX_LISTED]],
    }


def answer_for(request):
    """The answer to one request."""
    addresses = [parse_address(text, f"addresses[{index}]") for index, text in enumerate(request["addresses"])]
    networks = [parse_network(text, f"networks[{index}]") for index, text in enumerate(request["networks"])]
    results = [membership(address, list(dict.fromkeys(networks))) for address in addresses]
    return {
        "results": results,
        "unmatched": [result["address"] for result in results if not result["match_count"]],
        "truncated": any(result["match_count"] > MAX_LISTED for result in results),
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
        answer = answer_for(read_request())
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(answer, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
