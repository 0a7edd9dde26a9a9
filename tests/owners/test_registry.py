"""Every kind of lookup has its adapter, and others can bring theirs."""

import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pytest

from ledger.rules.contract_sections import LookupBy
from ledger.rules.vocabulary import LookupOutcome
from recovery.owners.base import OwnerAdapter, Question, Reply
from recovery.owners.registry import adapters


class Oracle:
    """An adapter that somebody else wrote."""

    def ask(self, question: Question) -> Reply:
        return Reply(outcome=LookupOutcome.INCONCLUSIVE, reason=f"Nobody knows {question.operation_id}")


def register(table: MutableMapping[LookupBy, OwnerAdapter]) -> None:
    """What an entry point and ASCERTAIN_OWNER_ADAPTERS name."""
    table[LookupBy.SQL] = Oracle()


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    adapters.cache_clear()
    yield
    adapters.cache_clear()


def test_whatever_a_contract_may_state_can_be_asked() -> None:
    by_sending_again = {LookupBy.REPLAY}
    assert set(adapters()) >= set(LookupBy) - by_sending_again


def test_a_module_of_the_deployment_may_replace_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCERTAIN_OWNER_ADAPTERS", __name__)
    assert isinstance(adapters()[LookupBy.SQL], Oracle)


def test_an_installed_package_may_bring_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As pip leaves it: a folder with metadata on the path."""
    told = tmp_path / "warehouse_ascertain-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: warehouse-ascertain\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(f"[ascertain.owner_adapters]\nwarehouse = {__name__}:register\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert isinstance(adapters()[LookupBy.SQL], Oracle)


def test_one_that_cannot_be_imported_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCERTAIN_OWNER_ADAPTERS", "no.such.module")
    with pytest.raises(ModuleNotFoundError):
        adapters()
