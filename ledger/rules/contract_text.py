"""How is a published contract written down, so that reading it gives the same document again?

| it holds                                       | it is written                                              |
| ---------------------------------------------- | ---------------------------------------------------------- |
| members of a contract                          | in the order of the documentation                          |
| text that would be read as a number or a word  | in quotes                                                  |
| text with breaks or marks that cannot be seen  | in quotes, with escapes                                    |
| so much that indentation makes it too large    | as JSON, which is YAML too                                 |
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from ledger.rules.contract import Contract
from ledger.rules.contract_document import ContractInvalid, is_plain_text, read_document

_ORDER: Final = {name: place for place, name in enumerate(Contract.model_fields)}


_UNSEEN: Final = re.compile(r"[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]")
"""JSON leaves these as they are; YAML breaks lines at them, or does not take them."""


def contract_text(document: Mapping[str, Any]) -> str:
    """YAML for a contract document of plain JSON values.

    Raises:
        ContractInvalid: no text that is read here would hold it; it is larger than what is accepted.
    """
    ordered = dict(sorted(document.items(), key=lambda member: _ORDER.get(member[0], len(_ORDER))))
    text = yaml.dump(
        ordered, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None, indent=2
    )
    if _reads_as(text, ordered):
        return text
    # Indentation may make it larger than what is read.
    text = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(ordered, ensure_ascii=False)) + "\n"
    if not _reads_as(text, ordered):
        read_document(text)
        raise AssertionError("JSON text was read as another document.")
    return text


def _reads_as(text: str, document: Mapping[str, Any]) -> bool:
    try:
        return read_document(text).value == document
    except ContractInvalid:
        return False


class _Writer(yaml.SafeDumper):
    """Writes what `read_document` reads: no aliases, quotes where text looks like something else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        return True


def _text(writer: _Writer, text: str) -> yaml.ScalarNode:
    return writer.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if text.isprintable() and is_plain_text(text) else '"'
    )


_Writer.add_representer(str, _text)
