"""One operation of one harness at a real owner: written when a permit is held, looked at when it is due."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from recovery.reconcile import reconcile
from tests.conftest import Api, Database, make_bench
from tests.owners import kinto, localstripe, postgres
from tests.owners.faulty import QUICK, SUBJECTS, Subject


class Play:
    """Begun with a permit."""

    def __init__(self, subject: Subject, **contract: Any) -> None:
        """`contract`: members that replace the owner's own."""
        self.subject = subject
        bench = make_bench(owner_url=subject.address)
        document = QUICK | subject.contract() | contract
        bench.publish(document)
        self._api = Api(bench.token)
        intent = {"operation_id": subject.id, "tool": document["contract"], "payload": subject.payload}
        opened = self._api.post("/operations", {**intent, "attempt": True}).json()
        assert opened["ok"], opened
        self.id = UUID(opened["data"]["id"])
        self.permit: dict[str, Any] = opened["data"]["permit"]
        self.writes = 0

    def write(self) -> dict[str, Any]:
        """With the permit that is held; the operation as it stands with the report."""
        self.writes += 1
        return self.report(self.subject.write(self.permit["idempotency_key"]))

    def report(self, seen: dict[str, Any]) -> dict[str, Any]:
        """Tell what was seen of the permitted call."""
        path = f"/operations/{self.subject.id}/attempts/{self.permit['attempt_id']}/observations"
        answer = self._api.post(path, seen)
        assert answer.status_code == 200, (seen, answer.content)
        data: dict[str, Any] = answer.json()["data"]
        return data

    def look(self) -> dict[str, Any]:
        """When it is due, as the worker does."""
        reconcile(id=self.id, time_left=5)
        data: dict[str, Any] = self._api.get(f"/operations/{self.subject.id}").json()["data"]
        return data

    def look_until(self, holds: Callable[[dict[str, Any]], bool], *, seconds: float = 15) -> dict[str, Any]:
        """Look until something is so."""
        ends = time.monotonic() + seconds
        while not holds(data := self.look()):
            assert time.monotonic() < ends, f"still {data['state']}: {data['decision']} {data['evidence']}"
            time.sleep(0.03)
        return data

    def may_write_again(self) -> bool:
        """Ask for a permit, as a harness does that knows no better."""
        answer = self._api.post(f"/operations/{self.subject.id}/attempts", {})
        if answer.status_code != 201:
            return False
        self.permit = answer.json()["data"]["permit"]
        return True

    def end(self, *, seconds: float = 30) -> dict[str, Any]:
        """Look, and write again where that is permitted, until nothing is left to do."""

        def is_over(data: dict[str, Any]) -> bool:
            if data["state"] == "open" and self.may_write_again():
                self.write()
            return data["state"] in ("settled", "escalated")

        return self.look_until(is_over, seconds=seconds)


@pytest.fixture
def subject_at(
    database: Database, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Subject]]:
    """An owner of `SUBJECTS` by its fixture's name, as this test sees it; its program is started once."""
    made: list[Subject] = []

    def make(owner: str) -> Subject:
        running = request.getfixturevalue(owner)
        monkeypatch.setenv(kinto.CREDENTIAL, kinto.AUTHORIZATION)
        monkeypatch.setenv(localstripe.CREDENTIAL, localstripe.AUTHORIZATION)
        if isinstance(running, postgres.Postgres):
            monkeypatch.setenv(postgres.CREDENTIAL, running.url(role="reader"))
        made.append(SUBJECTS[owner](running))
        return made[-1]

    yield make
    for subject in made:
        subject.close()
