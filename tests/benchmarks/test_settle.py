"""The pure parts of `settle`: faults told by a seed, the made-up owner, and the comparison of ledger and owner."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from recovery.benchmarks.settle_faults import names_of
from recovery.benchmarks.settle_harness import LAG
from recovery.benchmarks.settle_owner import (
    AGAIN,
    CARRIED_OUT,
    PROCESSING,
    READS,
    SHOWN_LATE,
    WRITES,
    Answer,
    Fault,
    Owner,
    fault_of,
)
from recovery.benchmarks.settle_verdict import Kept, judge


def kept(name: str, state: str, outcome: str | None = None, **more: Any) -> Kept:
    known = {"at_once": False, "seconds": 1.0, "attempts": 1, "by_us": 0}
    return Kept(name=name, state=state, outcome=outcome, **{**known, **more})


@pytest.mark.parametrize(
    ("state", "outcome", "effects", "found"),
    [
        ("settled", "applied", 1, ""),
        ("settled", "applied", 0, "wrong"),  # told as done, and it is not
        ("settled", "applied", 2, "duplicates"),
        ("settled", "not_applied", 0, ""),
        ("settled", "not_applied", 1, "wrong"),  # told as absent, and it is there
        ("settled", "partially_applied", 1, "wrong"),  # none of these tools has items
        ("settled", "written_off", 0, "wrong"),  # nobody signed here
        ("escalated", None, 0, ""),  # it claims nothing
        ("escalated", None, 1, ""),
        ("escalated", None, 2, "duplicates"),  # a person has it, and it was sent twice all the same
        ("reconciling", None, 1, "unfinished"),
        ("open", None, 0, "unfinished"),
        ("dispatched", None, 0, "unfinished"),
    ],
)
def test_the_verdict_on_one_operation(state: str, outcome: str | None, effects: int, found: str) -> None:
    verdict = judge([kept("status-1", state, outcome)], effects={"status-1": effects} if effects else {})
    broken = {name for name in ("duplicates", "wrong", "unfinished") if getattr(verdict, name)}
    assert broken == ({found} if found else set())
    assert verdict.holds is (not found)
    assert (verdict.told().get("which") == ["status-1"]) is bool(found)


def test_what_the_first_report_settled_is_not_counted_as_settled_by_machine() -> None:
    verdict = judge(
        [
            kept("a", "settled", "applied", at_once=True),
            kept("b", "settled", "applied", seconds=3.0, by_us=2),
            kept("c", "settled", "not_applied", seconds=9.0),
            kept("d", "escalated"),
        ],
        effects={"a": 1, "b": 1},
    )
    told = verdict.told()
    assert (told["settled_at_once"], told["settled_by_machine"], told["escalated"]) == (1, 2, 1)
    assert (told["seconds_to_settle_p50"], told["seconds_to_settle_p99"], told["sent_by_ascertain"]) == (9.0, 9.0, 2)


def test_names_are_of_all_desks_mixed_and_each_once() -> None:
    names = names_of(200)
    assert len(set(names)) == len(names) == 200
    assert Counter(name.partition("-")[0] for name in names[:100]) == {"status": 45, "key": 35, "index": 20}


@pytest.mark.parametrize("chances", [WRITES, AGAIN, READS])
def test_chances_are_of_a_hundred(chances: dict[Fault, int]) -> None:
    assert sum(chances.values()) == 100


def test_a_fault_is_told_by_seed_name_and_number_alone() -> None:
    def told(seed: int) -> list[Fault]:
        return [fault_of(seed=seed, name=f"n-{n}", number=1, chances=WRITES) for n in range(300)]

    assert told(1) == told(1) != told(2)
    assert set(told(1)) == set(WRITES)


def test_the_contracts_lag_covers_the_owners() -> None:
    assert LAG.total_seconds() > PROCESSING + SHOWN_LATE


def owners_story(story: Any) -> Any:
    async def tell() -> Any:
        return await story(Owner(seed=1, faulty=True))

    # In a thread of its own: a browser's tests may have left an event loop in this one.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, tell()).result()


def named(fault: Fault, *, number: int = 1) -> str:
    """A name whose write meets that fault."""
    chances = WRITES if number == 1 else AGAIN
    found = (f"n-{n}" for n in range(10_000))
    return next(
        name for name in found if fault_of(seed=1, name=f"write:{name}", number=number, chances=chances) is fault
    )


@pytest.mark.parametrize("fault", sorted(set(WRITES) - {Fault.LATE}))
def test_what_is_carried_out_is_an_effect_and_nothing_else_is(fault: Fault) -> None:
    async def story(owner: Owner) -> None:
        heard: list[tuple[Fault, Answer]] = []
        name = named(fault)
        owner.write(desk="status", name=name, key=None, answer=lambda *told: heard.append(told))
        assert heard[0][0] is fault
        assert owner.truth()["effects"] == ({name: 1} if fault in CARRIED_OUT else {})

    owners_story(story)


def test_without_a_key_each_request_is_an_effect_and_with_one_only_the_first() -> None:
    async def story(owner: Owner) -> None:
        name = named(Fault.NONE)
        heard: list[tuple[Fault, Answer]] = []
        for _ in range(8):
            owner.write(desk="key", name=name, key="k", answer=lambda *told: heard.append(told))
        assert owner.truth()["effects"] == {name: 1}
        whole = [answer for fault, answer in heard if fault is Fault.NONE]
        assert len({str(answer) for answer in whole}) == 1, "a replay is answered as the first one was"
        for _ in range(8):
            owner.write(desk="status", name=f"{name}-x", key="k", answer=lambda *_: None)
        assert owner.truth()["effects"][f"{name}-x"] > 1

    owners_story(story)


def test_a_late_effect_is_in_flight_and_is_shown_later() -> None:
    async def story(owner: Owner) -> None:
        name = named(Fault.LATE)
        heard: list[tuple[Fault, Answer]] = []
        owner.write(desk="key", name=name, key="k", answer=lambda *told: heard.append(told))
        assert not heard
        assert owner.truth()["effects"] == {}
        again: list[tuple[Fault, Answer]] = []
        owner.write(desk="key", name=name, key="k", answer=lambda *told: again.append(told))
        assert again[0][1] in ((409, {"code": "IN_FLIGHT"}), (0, None))
        await asyncio.sleep(PROCESSING + 0.1)
        assert owner.truth()["effects"] == {name: 1}
        assert heard[0][0] is Fault.LATE
        assert 1.0 < owner.longest_lag < PROCESSING + SHOWN_LATE + 0.2

    owners_story(story)
