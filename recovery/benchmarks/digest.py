"""`digest`: canonicalise and hash a payload ÷ json.loads of the same payload."""

import json
import random
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import rfc8785

from ledger.rules.payload import canonical, digest
from recovery.benchmarks.rounds import Side, compare, line

PAYLOADS: dict[str, Any] = {
    "ticket": {
        "title": "Export broken",
        "customer": "c-19",
        "text": "The export to CSV ends after 1,000 rows since Tuesday. Version 4.2.1, Firefox.",
        "tags": ["export", "csv", "regression"],
        "requester": {"name": "Ada", "email": "ada@example.com", "locale": "en-GB"},
        "priority": 3,
        "notify": True,
    },
    "payment": {"amount": 1250, "currency": "EUR", "customer": "c-19", "reference": "inv-2026-000918", "rate": 0.19},
    "order": {"lines": [{"sku": f"sku-{n}", "count": n, "note": None} for n in range(20)], "customer": "c-19"},
}
CORPUS = 5_000
LOOPS = 20_000


def run(*, rounds: int = 5) -> Iterator[dict[str, Any]]:
    """A line a payload, and one for the fuzz corpus.

    Raises:
        VoidRunError: too few rounds count.
    """
    for name, payload in PAYLOADS.items():
        text = json.dumps(payload)
        done = compare(
            ours=_timed(lambda payload=payload: digest(payload)),  # type: ignore[misc] # bound now
            reference=_timed(lambda text=text: json.loads(text)),  # type: ignore[misc] # likewise
            rounds=rounds,
        )
        yield line(name=f"digest/{name}", rounds=done, unit="µs", target="≤ 1.0", met=lambda ratio: ratio <= 1.0)
    differ = sum(canonical(value) != rfc8785.dumps(value) for value in corpus(CORPUS))
    yield {
        "name": "digest/corpus",
        "ours": differ,
        "reference": 0,
        "unit": "values whose bytes differ from RFC 8785",
        "n": CORPUS,
        "target": "0",
        "met": differ == 0,
    }


def corpus(size: int) -> Iterator[Any]:
    """Made-up values of every shape, the same each time."""
    dice = random.Random(8785)  # noqa: S311 - a fixed corpus
    for _ in range(size):
        yield _value(dice, depth=0)


def _value(dice: random.Random, *, depth: int) -> Any:
    kind = dice.randrange(8 if depth < 4 else 6)
    if kind == 0:
        return None
    if kind == 1:
        return dice.random() < 0.5
    if kind == 2:
        return dice.randint(-(2**53) + 1, 2**53 - 1)
    if kind == 3:
        return dice.choice([0.0, -0.0, 1.5, 1e-7, 123456.789, 5e-324, dice.uniform(-1e6, 1e6), dice.random() * 1e-9])
    if kind in (4, 5):
        return _text(dice)
    if kind == 6:
        return [_value(dice, depth=depth + 1) for _ in range(dice.randrange(5))]
    return {_text(dice): _value(dice, depth=depth + 1) for _ in range(dice.randrange(6))}


def _text(dice: random.Random) -> str:
    alphabet = 'abc 0.9e+"\\/\t\n\u001f\u007fäß€\ue000\uffff😀𐀀'
    return "".join(dice.choice(alphabet) for _ in range(dice.randrange(12)))


def _timed(work: Callable[[], Any]) -> Callable[[], Side]:
    def once() -> Side:
        return Side(figure=timeit.timeit(work, number=LOOPS) / LOOPS * 1e6)

    return once
