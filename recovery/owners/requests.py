"""What is sent when a contract's HTTP question is put: its address, headers and body, with every slot filled.

| part                | made of                                                                                     |
| ------------------- | ------------------------------------------------------------------------------------------- |
| `path`              | the owner's address and the rendered path; values are percent-encoded whole                   |
| `at`                | an address that the owner handed out: whole, or from its root (`/…`), or below the owner's own |
| `headers`, `body`   | rendered; the credential is added last, so that no template takes its place                   |
| `{cursor}`          | the cursor of the page before; on the first page its query parameter or body member is left out |
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import httpx2

from ledger.rules.contract_sections import LookupRequest
from ledger.rules.templates import NotRendered, render_path, render_value, strings
from recovery.owners.base import Reach
from recovery.owners.credentials import headers_for
from recovery.owners.outgoing import Request

CURSOR: Final = "{cursor}"
_CURSOR_PARAMETER = re.compile(r"[^?&=]+=\{cursor\}")


def rendered(
    http: LookupRequest,
    *,
    values: Mapping[str, Any],
    reach: Reach,
    credential: str | None,
    secrets: Mapping[str, str],
    cursor: str | None = None,
    url: str | None = None,
) -> tuple[Request, str]:
    """The request, and what is asked as it may be shown: without credentials and without an owner's own parameters.

    `values` fill the slots; `cursor` fills `{cursor}`; `url` stands for the whole address, when the owner named it.

    Raises:
        NotRendered: a slot has no value, or `at` has no address.
        CredentialMissing: the credential has no value.
    """
    path, body = http.path, http.body
    if cursor is None:
        path, body = _without_cursor(path), _without_cursor_member(body)
    else:
        values = {**values, "cursor": cursor}
    address, shown = _address(path, http.at, url, values, reach)
    headers = {name.lower(): str(render_value(value, values=values)) for name, value in http.headers.items()}
    content = None
    if http.method == "POST":
        content = b"" if body is None else json.dumps(render_value(body, values=values)).encode()
        headers.setdefault("content-type", "application/json")
    headers |= headers_for(credential, secrets=secrets)
    return Request(method=http.method, url=address, headers=headers, body=content), f"{http.method} {shown}"


def takes_cursor(http: LookupRequest) -> bool:
    """Whether the contract says where a cursor goes; otherwise the owner names whole addresses."""
    return any(CURSOR in text for text in strings([http.path, http.body]))


def _address(
    path: str | None, at: str | None, url: str | None, values: Mapping[str, Any], reach: Reach
) -> tuple[str, str]:
    base = reach.base_url.rstrip("/")
    if url is not None:
        return url, _path_alone(url)
    if path is not None:
        rest = render_path(path, values=values)
        return base + rest, rest
    given: Any = values.get("receipt")
    for step in (at or "").split("."):
        given = given.get(step) if isinstance(given, Mapping) else None
    if not isinstance(given, str) or not given.strip():
        raise NotRendered(f"receipt.{at}")
    try:
        address = str(httpx2.URL(f"{base}/").join(given.strip()))
    except (httpx2.InvalidURL, ValueError):
        raise NotRendered(f"receipt.{at}") from None
    return address, _path_alone(address)


def _path_alone(address: str) -> str:
    """An owner's own address may carry a signature in its parameters, so they are not shown."""
    try:
        return httpx2.URL(address).path
    except (httpx2.InvalidURL, ValueError):
        return "an address that cannot be read"


def _without_cursor(path: str | None) -> str | None:
    if path is None or CURSOR not in path:
        return path
    start, _, query = path.partition("?")
    kept = [part for part in query.split("&") if _CURSOR_PARAMETER.fullmatch(part) is None]
    return f"{start}?{'&'.join(kept)}" if kept else start


def _without_cursor_member(body: Any) -> Any:
    if isinstance(body, Mapping):
        return {name: _without_cursor_member(value) for name, value in body.items() if value != CURSOR}
    if isinstance(body, list | tuple):
        return [_without_cursor_member(value) for value in body]
    return body
