"""UUIDs of version 7 (RFC 9562 §5.7): they sort by the millisecond they were made in, so new rows land side by side."""

import os
import time
from uuid import UUID


def new_id() -> UUID:
    """A new UUIDv7. Its clock only orders rows on disk; no rule reads it."""
    milliseconds = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (
        (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | (tail >> 68 & 0xFFF) << 64 | 0b10 << 62 | tail & (2**62 - 1)
    )
    return UUID(int=value)
