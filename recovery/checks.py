"""What Django says before it starts when a setting would lead to trouble later."""

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from recovery.sealing import HOW_TO_SET, FieldKeysMissing, seal


@register()
def field_keys_are_set(**_: Any) -> list[CheckMessage]:
    """In production there is a key to keep secrets with, and it is one."""
    if not settings.ASCERTAIN_FIELD_KEYS and not os.environ.get("DATABASE_URL"):
        return []  # no production, and `make up` makes one
    try:
        seal("")
    except FieldKeysMissing as missing:
        said = str(missing).removesuffix(f" {HOW_TO_SET}")
        return [Error(said, hint=HOW_TO_SET, id="recovery.E001")]
    return []
