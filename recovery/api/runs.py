"""Runs: the budget that all operations of one run of an agent share, and what a person is handed when it stops."""

from typing import Annotated, Any

from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field, StringConstraints

from ledger.errors import constraint_of
from ledger.queries.run import RunOperations, RunRow, run_by_name, run_operations
from ledger.rules.packet import Packet, Question, Tried, packet_document, packet_markdown, review_packet
from ledger.rules.runs import RunBudget, stop_of
from ledger.rules.vocabulary import Scope, State
from ledger.transitions.run import RUN_LAWS, register_run
from recovery.api.bodies import OPERATION_ID, Strict
from recovery.api.envelope import Refusal, ok, rfc3339
from recovery.api.intake import body_of, caller_of
from recovery.api.operations import documented
from recovery.api.read_results import weighed

router = Router(tags=["runs"])

_LONGEST_MS = 366 * 24 * 3600 * 1000
_MARKDOWN, _JSON = "text/markdown", "application/json"


class NewRun(Strict):
    """A run to register."""

    run: Annotated[str, StringConstraints(pattern=OPERATION_ID)]
    """What operations state as `agent.run`."""
    deadline_ms: Annotated[int, Field(ge=1, le=_LONGEST_MS)] | None = None
    """How long it may send, from now on."""
    max_dispatches: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Permits in all, over all its operations."""
    questions: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00]+$")]],
        Field(max_length=20),
    ] = []
    """What a person wants to know in the end. Each stands in the packet as unverified: no read answers it by itself."""


@router.post("/runs", summary="Register a run with its own budget", openapi_extra=documented(NewRun))
def register(request: HttpRequest) -> HttpResponse:
    """201 new · 200 the same run again · 409 `RUN_MISMATCH` (same name, other budget) or `RUN_BUDGET_SPENT`.

    Register a run before its first operation. Its budget never changes.
    """
    body = body_of(request, NewRun)
    caller = caller_of(request, scope=Scope.OPERATIONS_WRITE)
    try:
        is_new = register_run(
            workspace_id=caller.workspace_id,
            name=body.run,
            max_dispatches=body.max_dispatches,
            deadline_ms=body.deadline_ms,
            questions=body.questions,
            now=caller.now,
        )
    except IntegrityError as error:
        if constraint_of(error) not in RUN_LAWS:
            raise
        raise Refusal(
            status=409,
            code="RUN_BUDGET_SPENT",
            message="More was dispatched for this run already than max_dispatches allows. Nothing was recorded.",
            hint="Use a new run, or a larger max_dispatches.",
            field="max_dispatches",
        ) from error
    row = run_by_name(workspace_id=caller.workspace_id, name=body.run)
    if row is None:
        raise _not_found()
    if not is_new and (differs := _differs(row, body)) is not None:
        raise Refusal(
            status=409,
            code="RUN_MISMATCH",
            message=f"This run was registered with another {differs}. Nothing was changed.",
            hint="A run's budget never changes; use a new name for another run.",
            field=differs,
        )
    operations = run_operations(workspace_id=caller.workspace_id, name=body.run)
    return ok(_told(row, operations), status=201 if is_new else 200)


@router.get("/runs/{run}", summary="Read a run: what is left of its budget, why it stopped, the review packet")
def read_run(request: HttpRequest, run: str) -> HttpResponse:
    """JSON, or the review packet alone in Markdown for `Accept: text/markdown`."""
    caller = caller_of(request, scope=Scope.OPERATIONS_READ)
    row = run_by_name(workspace_id=caller.workspace_id, name=run) if "\x00" not in run else None
    if row is None:
        raise _not_found()
    operations = run_operations(workspace_id=caller.workspace_id, name=row.name)
    if request.get_preferred_type([_JSON, _MARKDOWN]) == _MARKDOWN:
        answer = HttpResponse(packet_markdown(_packet(row, operations)), content_type=f"{_MARKDOWN}; charset=utf-8")
    else:
        answer = ok(_told(row, operations))
    answer["Vary"] = "Accept"
    return answer


def _told(row: RunRow, operations: RunOperations) -> dict[str, Any]:
    packet = _packet(row, operations)
    return {
        "run": row.name,
        "created_at": rfc3339(row.created_at),
        "deadline_at": rfc3339(row.budget.deadline_at),
        "budgets": _budgets(row.budget, row),
        "operations": {
            "total": sum(operations.states.values()),
            "by_state": {state.value: count for state, count in operations.states.items()},
            "unsettled": sum(count for state, count in operations.states.items() if state is not State.SETTLED),
        },
        "stop_reason": packet.stop,
        "packet": packet_document(packet),
        "truncated": operations.left_out > 0,
    }


def _budgets(budget: RunBudget, row: RunRow) -> dict[str, Any]:
    dispatches, left = budget.dispatches, budget.time_left(now=row.now)
    return {
        "dispatches": None
        if dispatches is None
        else {"used": dispatches.used, "limit": dispatches.limit, "left": dispatches.left},
        "deadline": None
        if left is None
        else {"limit_ms": row.deadline_ms, "left_ms": int(left.total_seconds() * 1000)},
    }


def _packet(row: RunRow, operations: RunOperations) -> Packet:
    questions = [Question(text=text) for text in row.questions]
    if operations.left_out:
        questions.append(Question(text=f"{operations.left_out} more operations of this run are not in this packet."))
    return review_packet(
        title=row.name,
        tried=[Tried(at=report.at, result=weighed(report), name=report.operation_id) for report in operations.reads],
        written=operations.writes,
        questions=questions,
        stop=stop_of(budget=row.budget, states=operations.states, now=row.now),
        as_of=row.now,
    )


def _differs(row: RunRow, body: NewRun) -> str | None:
    most = row.budget.dispatches.limit if row.budget.dispatches is not None else None
    for name, same in (
        ("max_dispatches", most == body.max_dispatches),
        ("deadline_ms", row.deadline_ms == body.deadline_ms),
        ("questions", list(row.questions) == body.questions),
    ):
        if not same:
            return name
    return None


def _not_found() -> Refusal:
    """One answer for a run that is not registered and for another workspace's."""
    return Refusal(
        status=404,
        code="RUN_NOT_FOUND",
        message="There is no such run in this workspace.",
        hint="Register it with POST /api/v1/runs, or check its name and the token's workspace.",
    )
