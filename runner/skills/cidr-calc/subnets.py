"""Facts about one IP network, and its split into equal subnets.

Reads {"network", "new_prefix"? or "parts"?, "limit"?} from stdin, writes one JSON object.
Counts of addresses and subnets are decimal strings, because IPv6 exceeds what JSON readers keep exact.
"""

import ipaddress
import json
import sys

KINDS = [
    (ipaddress.ip_network(text), kind)
    for text, kind in (
        ("0.0.0.0/8", "this-network"), ("10.0.0.0/8", "private"), ("100.64.0.0/10", "shared-cgnat"),
        ("127.0.0.0/8", "loopback"), ("169.254.0.0/16", "link-local"), ("172.16.0.0/12", "private"),
        ("192.0.2.0/24", "documentation"), ("192.168.0.0/16", "private"), ("198.18.0.0/15", "benchmark"),
        ("198.51.100.0/24", "documentation"), ("203.0.113.0/24", "documentation"), ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"), ("::/128", "unspecified"), ("::1/128", "loopback"),
        ("::ffff:0:0/96", "ipv4-mapped"), ("64:ff9b::/96", "nat64"), ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"), ("fc00::/7", "unique-local"), ("fe80::/10", "link-local"), ("ff00::/8", "multicast"),
    )
]


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


def kind_of(network):
    """The special-purpose range that holds the whole network, or "general"."""
    for known, kind in KINDS:
        if known.version == network.version and network.subnet_of(known):
            return kind
    return "general"


def usable_range(network):
    """First and last address for hosts, and how many there are."""
    first, last = network.network_address, network.broadcast_address
    if network.version == 4 and network.prefixlen < 31:
        first, last = first + 1, last - 1
    return first, last, int(last) - int(first) + 1


def info(network, given):
    """What there is to know about one network."""
    first, last, usable = usable_range(network)
    facts = {
        "network": network_text(network),
        "version": network.version,
        "prefix": network.prefixlen,
        "kind": kind_of(network),
        "first_address": address_text(network.network_address),
        "last_address": address_text(network.broadcast_address),
        "addresses": str(network.num_addresses),
        "first_host": address_text(first),
        "last_host": address_text(last),
        "hosts": str(usable),
        "host_bits_set": ipaddress.ip_address(given.split("/")[0]) != network.network_address,
    }
    if network.version == 4:
        facts["netmask"] = str(network.netmask)
        facts["wildcard"] = str(network.hostmask)
    return facts


def target_prefix(request, network):
    """The prefix length to split to, or None."""
    if "new_prefix" in request and "parts" in request:
        raise InputError('parts: give either "new_prefix" or "parts", not both')
    if "parts" in request:
        prefix, field = network.prefixlen + (int(request["parts"]) - 1).bit_length(), "parts"
    elif "new_prefix" in request:
        prefix, field = int(request["new_prefix"]), "new_prefix"
    else:
        return None
    if not network.prefixlen <= prefix <= network.max_prefixlen:
        raise InputError(f"{field}: a /{network.prefixlen} network can be split to prefixes /{network.prefixlen} to /{network.max_prefixlen}, not /{prefix}")
    return prefix


def split(network, prefix, limit):
    """The first subnets of a split and how many there are."""
    count = 1 << (prefix - network.prefixlen)
    step = 1 << (network.max_prefixlen - prefix)
    base = network.network_address
    return {
        "new_prefix": prefix,
        "subnet_count": str(count),
        "addresses_each": str(step),
        "subnets": [f"{address_text(base + index * step)}/{prefix}" for index in range(min(count, limit))],
        "last_subnet": f"{address_text(base + (count - 1) * step)}/{prefix}",
        "truncated": count > limit,
    }


def answer_for(request):
    """The answer to one request."""
    network = parse_network(request["network"], "network")
    answer = {"info": info(network, request["network"])}
    prefix = target_prefix(request, network)
    if prefix is not None:
        answer["split"] = split(network, prefix, int(request.get("limit", 64)))
    return answer


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
