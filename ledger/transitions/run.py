"""Register a run of an agent, with the budget that all its operations share."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.rules.permits import Granted

RUN_LAWS = frozenset({"a_runs_dispatches_stay_within_its_budget", "a_run_sends_nothing_after_its_deadline"})
"""Constraints that refuse a permit because of its run."""


def spends(
    *, agent: Mapping[str, Any] | None, workspace_id: UUID, terms: Granted, now: datetime
) -> dict[str, Any] | None:
    """What a permit takes from its run's budget (`Change.spends`); None when no run is stated.

    Nothing is read for it: the statement that gives the permit counts it where the run is registered, and the database
    refuses one too many. Only then is the run read, for the sentence.
    """
    name = agent.get("run") if agent else None
    if name is None:
        return None
    end = max(terms.dispatch_by, now + timedelta(milliseconds=terms.timeout_ms))
    return {"workspace": workspace_id, "name": name, "end": end}


def register_run(
    *,
    workspace_id: UUID,
    name: str,
    max_dispatches: int | None,
    deadline_ms: int | None,
    questions: Sequence[str],
    now: datetime,
) -> bool:
    """Records the run; its time begins now. False when the workspace has a run of this name already.

    What was dispatched for operations that state this run before it was registered counts too. A permit given in the
    very moment of registering may be missed: register a run before its first operation.

    Raises:
        django.db.IntegrityError: more was dispatched for it already than it is to be allowed.
    """
    rows = execute(
        "INSERT INTO run (id, workspace_id, name, max_dispatches, deadline_ms, deadline_at, questions, dispatches, created_at) "
        "SELECT %(id)s, %(workspace)s, %(name)s::text, %(most)s, %(milliseconds)s, %(deadline)s, %(questions)s, "
        "(SELECT count(*) FROM attempt a JOIN operation o ON o.id = a.operation "
        "WHERE o.workspace_id = %(workspace)s AND o.agent->>'run' = %(name)s::text), %(now)s "
        "ON CONFLICT ON CONSTRAINT a_run_has_one_name_in_its_workspace DO NOTHING RETURNING id",
        {
            "id": new_id(),
            "workspace": workspace_id,
            "name": name,
            "most": max_dispatches,
            "milliseconds": deadline_ms,
            "deadline": None if deadline_ms is None else now + timedelta(milliseconds=deadline_ms),
            "questions": orjson.dumps(list(questions)).decode(),
            "now": now,
        },
    )
    return bool(rows)
