"""Amazon's framing of a stream, in which Bedrock sends what others send as server-sent events.

Source: the format "vnd.amazon.eventstream" as documented for the Amazon event stream encoding, November 2026.
"""

import base64
import json
import struct
from binascii import crc32

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_HEADERS = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
_STRING = 7  # the type of a header's value


def framed(event: bytes) -> bytes:
    """One message that holds a server-sent event's data."""
    data = event.partition(b"data: ")[2].strip()
    payload = json.dumps({"bytes": base64.b64encode(data).decode()}).encode()
    headers = b"".join(_header(name, value) for name, value in _HEADERS.items())
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", crc32(prelude)) + headers + payload
    return message + struct.pack("!I", crc32(message))


def _header(name: str, value: str) -> bytes:
    return struct.pack(f"!B{len(name)}sBH", len(name), name.encode(), _STRING, len(value)) + value.encode()
