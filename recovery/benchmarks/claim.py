"""`claim`: what is due is claimed as fast from a long schedule as from a short one, and while others hold old snapshots.

| line           | ours                                                                  | reference        | target |
| -------------- | --------------------------------------------------------------------- | ---------------- | ------ |
| claim.rows     | p50 of claiming 100 among `rows` scheduled operations                  | among 100,000    | ≤ 1.10 |
| claim.snapshot | p50 of the last tenth of 2,000 claims while a session holds a snapshot | of the first     | ≤ 1.10 |

The statement is the product's. Its tables are bare ones with the same keys and indexes, filled at once: a schedule, and of
an operation and a tool only what the claim joins. What was claimed is put off by an hour afterwards, as a lookup that
settles nothing does; only the claims are timed.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import psycopg

from ledger.database import execute
from ledger.transitions.schedule import Watermark, claim_due
from recovery.benchmarks.rounds import Round, Side, compare, line
from recovery.benchmarks.stage import Stage, stage

CLAIMED: Final = 100
CLAIMS: Final = 40
"""In a round and side."""
LONG: Final = 2_000
"""Claims beside a session that holds a snapshot."""
FEW: Final = 100_000
OWNERS: Final = 20
HOUR: Final = timedelta(hours=1)


def run(*, rounds: int = 5, rows: int = 1_000_000) -> Iterator[dict[str, Any]]:
    """Two lines.

    Raises:
        VoidRunError: too few rounds count.
    """
    with stage() as here:
        for schema, count in (("few", FEW), ("many", rows)):
            _fill(here, schema=schema, rows=count)
        yield line(
            name="claim.rows",
            rounds=compare(ours=lambda: _claims(here, "many"), reference=lambda: _claims(here, "few"), rounds=rounds),
            unit=f"ms, p50, {rows:,} rows ÷ {FEW:,}",
            target="≤ 1.10",
            met=lambda ratio: ratio <= 1.10,
        )
        yield line(
            name="claim.snapshot",
            rounds=[_beside_a_snapshot(here) for _ in range(rounds)],
            unit="ms, p50, last tenth ÷ first",
            target="≤ 1.10",
            met=lambda ratio: ratio <= 1.10,
        )


def _fill(here: Stage, *, schema: str, rows: int) -> None:
    """A schedule of so many rows, none of them due."""
    statements = (
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.tool (id uuid PRIMARY KEY, owner_id uuid NOT NULL)",
        f"CREATE TABLE {schema}.operation (id uuid PRIMARY KEY, tool_id uuid NOT NULL)",
        f"CREATE TABLE {schema}.schedule "
        "(operation uuid PRIMARY KEY, next_check_at timestamptz NOT NULL, claimed_until timestamptz)",
        f"INSERT INTO {schema}.tool SELECT {_id('n')}, {_id('n')} FROM generate_series(1, {OWNERS}) n",  # noqa: S608 - names are ours
        f"INSERT INTO {schema}.operation SELECT {_id('n')}, {_id(f'n % {OWNERS} + 1')} FROM generate_series(1, {rows}) n",  # noqa: S608
        f"INSERT INTO {schema}.schedule SELECT {_id('n')}, now() + interval '1 day' + random() * interval '3 days' "  # noqa: S608
        f"FROM generate_series(1, {rows}) n",
        f"CREATE INDEX ON {schema}.schedule (next_check_at)",
        f"GRANT USAGE ON SCHEMA {schema} TO ascertain_app",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO ascertain_app",
    )
    with psycopg.connect(here.superuser_url, autocommit=True) as superuser:
        for statement in statements:
            superuser.execute(statement)


def _make_due(here: Stage, *, schema: str, rows: int) -> None:
    """So many rows, spread over the table, become due in the last minute; then everything is swept clean."""
    with psycopg.connect(here.superuser_url, autocommit=True) as superuser:
        superuser.execute(
            f"UPDATE {schema}.schedule SET next_check_at = now() - interval '60 seconds' + random() * interval '50 seconds', "  # noqa: S608
            f"claimed_until = NULL WHERE operation IN (SELECT operation FROM {schema}.schedule ORDER BY operation LIMIT {rows})"
        )
        superuser.execute(f"VACUUM ANALYZE {schema}.schedule, {schema}.operation, {schema}.tool")
    execute(f"SET search_path TO {schema}, public")


def _id(number: str) -> str:
    return f"md5(({number})::text)::uuid"


def _claims(here: Stage, schema: str) -> Side:
    """Claims of what is due in that schema, each put off afterwards."""
    _make_due(here, schema=schema, rows=2 * CLAIMS * CLAIMED)
    watermark = Watermark()
    return _side([_claim(watermark) for _ in range(CLAIMS)])


def _claim(watermark: Watermark) -> float:
    """Milliseconds of one claim."""
    began = time.perf_counter()
    ids = claim_due(most=CLAIMED, watermark=watermark)
    took = (time.perf_counter() - began) * 1000
    if len(ids) != CLAIMED:
        raise RuntimeError(f"only {len(ids)} operations were due")
    execute(
        "UPDATE schedule SET next_check_at = now() + %s, claimed_until = NULL WHERE operation = ANY(%s)", [HOUR, ids]
    )
    return took


def _beside_a_snapshot(here: Stage) -> Round:
    """The first and the last tenth of many claims."""
    took: list[float] = []

    def claim_many() -> Side:
        _make_due(here, schema="many", rows=(LONG + 10) * CLAIMED)
        watermark = Watermark()
        with _snapshot(here):
            took.extend(_claim(watermark) for _ in range(LONG))
        return _side(took[-LONG // 10 :])

    return compare(ours=claim_many, reference=lambda: _side(took[: LONG // 10]), rounds=1)[0]


def _side(took: list[float]) -> Side:
    ordered = sorted(took)
    return Side(
        figure=statistics.median(ordered), p50=statistics.median(ordered), p99=ordered[int(len(ordered) * 0.99)]
    )


@contextmanager
def _snapshot(here: Stage) -> Iterator[None]:
    """Another session that looks at everything as it is now, for as long as the block lasts."""
    with psycopg.connect(here.superuser_url) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM many.tool")
        yield
