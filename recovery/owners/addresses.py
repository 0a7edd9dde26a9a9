"""Which host may be asked on an owner's behalf, and at which of its addresses?

| the host and port                                    | may be asked                                       |
| ---------------------------------------------------- | -------------------------------------------------- |
| those of the owner's own address                     | yes                                                |
| listed in `hosts` as `name` or `name:port`           | on the protocol's own port, or on the stated one   |
| any other                                            | no                                                 |

| the address that it resolves to                      | may be connected to                                |
| ---------------------------------------------------- | -------------------------------------------------- |
| a cloud's metadata or credential address             | never                                              |
| multicast, broadcast, unspecified, reserved          | never                                              |
| loopback, private, link-local, shared, documentation | only for a host that is listed in `private_hosts`  |
| an IPv6 address that carries an IPv4 one             | as the IPv4 one                                    |
| any other                                            | yes                                                |

One address that may not be connected to refuses them all: a name with mixed answers is being played with. What was
checked is what is connected to; the name is not resolved a second time.
"""

import contextlib
import socket
import threading
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from queue import Empty, SimpleQueue
from typing import Final
from urllib.parse import urlsplit

from recovery.owners.base import Reach

PORTS: Final = {"http": 80, "https": 443, "postgresql": 5432, "postgres": 5432}
"""Each protocol's own port."""

_METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google Cloud, OpenStack, DigitalOcean
        "169.254.170.2",  # AWS: credentials of an ECS task
        "169.254.170.23",  # AWS: credentials of an EKS pod
        "169.254.169.253",  # AWS: the resolver of a private network
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS: credentials of an EKS pod
        "fd20:ce::254",  # Google Cloud
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure's wire server
        "192.0.0.192",  # Oracle Cloud
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_DOCUMENTATION: Final = IPv6Network("3fff::/20")
_RESERVED: Final = IPv4Network("240.0.0.0/4")

Address = IPv4Address | IPv6Address


class AddressRefused(Exception):
    """The host, or an address that it resolves to, may not be asked. The message says why and what would allow it."""


class NotResolved(Exception):
    """The name has no address, or nobody told it in time."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """Where to connect to, by name."""

    host: str
    """In lower case, without brackets; an international name as it goes over the wire."""
    port: int


def check_host(*, host: str, port: int, scheme: str, reach: Reach) -> None:
    """Whether a host and port may be asked at all, before anything is resolved.

    Raises:
        AddressRefused: they are not among the owner's.
    """
    if HostPort(_plain(host), port) not in _allowed(reach, scheme):
        raise AddressRefused(
            f"{_plain(host)}:{port} is not among the hosts that this owner may be asked on; list it there if it is meant."
        )


def checked_addresses(*, host: str, port: int, reach: Reach, seconds: float) -> tuple[Address, ...]:
    """Every address of a host, all of them checked; in the order in which to try them. Resolves once.

    Raises:
        AddressRefused: one of them may not be connected to.
        NotResolved: there is none, or none within `seconds`.
    """
    found = _resolved(_plain(host), port, seconds)
    private = is_private_host(host=host, port=port, reach=reach)
    for address in found:
        reason = refusal(address, private_allowed=private)
        if reason is not None:
            raise AddressRefused(f"{_plain(host)} resolves to {reason}")
    return found


def is_private_host(*, host: str, port: int, reach: Reach) -> bool:
    """Whether a host may resolve to private addresses: listed by name, or by name and port."""
    name = _plain(host)
    return any(_entry(entry) in ((name, None), (name, port)) for entry in reach.private_hosts)


def refusal(address: Address, *, private_allowed: bool) -> str | None:
    """Why an address may not be connected to, in words that follow "resolves to"; None when it may."""
    real = _unwrapped(address)
    if real in _METADATA:
        return "a metadata address of a cloud, which is never asked."
    if real.is_multicast or real.is_unspecified or (isinstance(real, IPv4Address) and real in _RESERVED):
        return "an address that belongs to no single machine, which is never asked."
    if _is_public(real) or private_allowed:
        return None
    kind = "a loopback" if real.is_loopback else "a link-local" if real.is_link_local else "a private or special"
    return f"{kind} address; list the host under the owner's private hosts if that is meant."


def _allowed(reach: Reach, scheme: str) -> set[HostPort]:
    allowed = set()
    own = urlsplit(reach.base_url)
    if own.hostname:
        # A port that is none: the address itself is wrong and allows nothing.
        with contextlib.suppress(ValueError):
            allowed.add(HostPort(_plain(own.hostname), own.port or PORTS.get(own.scheme, 0)))
    for entry in reach.hosts:
        name, port = _entry(entry)
        allowed.add(HostPort(name, port or PORTS.get(scheme, 0)))
    return allowed


def _entry(entry: str) -> tuple[str, int | None]:
    """`name`, `name:port`, `[v6]`, `[v6]:port` or a bare IPv6 address."""
    text = entry.strip()
    if text.count(":") > 1 and not text.startswith("["):
        return _plain(text), None
    try:
        parts = urlsplit(f"//{text}")
        return _plain(parts.hostname or ""), parts.port
    except ValueError:
        return "", None


def _plain(host: str) -> str:
    """One spelling of a host: lower case, no brackets, no final dot, IDNA over the wire."""
    name = host.strip().lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return ""


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        return address in _GLOBAL_UNICAST and address.is_global and address not in _DOCUMENTATION
    return address.is_global


def _resolved(host: str, port: int, seconds: float) -> tuple[Address, ...]:
    try:
        return (ip_address(host),)
    except ValueError:
        pass
    told: SimpleQueue[tuple[Address, ...] | None] = SimpleQueue()
    # The system's resolver knows no time limit, so somebody else waits for it.
    threading.Thread(target=_resolve, args=(host, port, told), daemon=True, name="resolve").start()
    try:
        found = told.get(timeout=max(seconds, 0.001))
    except Empty:
        raise NotResolved("The owner's name was not resolved in time.") from None
    if not found:
        raise NotResolved("The owner's name has no address.")
    return found


def _resolve(host: str, port: int, told: SimpleQueue[tuple[Address, ...] | None]) -> None:
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        told.put(tuple(dict.fromkeys(ip_address(row[4][0]) for row in rows)))
    except (OSError, ValueError, UnicodeError):
        told.put(None)
