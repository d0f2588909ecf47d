"""What an address tells: its host, and whether it is this machine or a private network."""

from ipaddress import ip_address
from urllib.parse import urlsplit

OPENAI_HOSTS = frozenset({"api.openai.com", "eu.api.openai.com", "us.api.openai.com"})


def host_of(url: str) -> str:
    """The host of a URL in lower case; "" if it has none or cannot be read."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_local_address(url: str) -> bool:
    """Whether a URL points at this machine or a private network: loopback, private ranges, names without a dot."""
    host = host_of(url)
    try:
        address = ip_address(host)
    except ValueError:  # a name
        return bool(host) and ("." not in host or host.endswith((".local", ".lan", ".internal", ".localhost")))
    return address.is_private or address.is_loopback or address.is_link_local or address.is_unspecified
