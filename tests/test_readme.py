"""The README says what is so."""

from pathlib import Path

from ledger.rules.lifecycle import diagram
from recovery.client import Ascertain

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_state_diagram_is_printed_from_the_table() -> None:
    assert diagram().strip() in README


def test_every_picture_is_there() -> None:
    root = Path(__file__).parent.parent
    pictures = [part.split(")")[0] for part in README.split("](static/")[1:]]
    assert pictures
    assert all((root / "static" / picture).exists() for picture in pictures)


def test_the_contract_in_the_readme_parses() -> None:
    from ledger.rules.contract import parse_contract

    text = README.split("```yaml\n")[1].split("```")[0]
    assert parse_contract(text).contract == "tickets.create"


def test_the_client_has_what_the_readme_shows() -> None:
    assert hasattr(Ascertain, "operation")
