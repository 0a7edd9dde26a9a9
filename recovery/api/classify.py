"""Judge an observation without recording anything."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import AwareDatetime, Field

from ledger.rules.contract import ContractInvalid, parse_stated_contract
from ledger.rules.vocabulary import Scope
from recovery.api.bodies import Strict
from recovery.api.envelope import Refusal, ok
from recovery.api.intake import body_of, caller_of
from recovery.api.operations import dialect_of, documented
from recovery.judgement.reading import ObservationInvalid
from recovery.judgement.stateless import judge
from recovery.judgement.wire import written_judgement

router = Router(tags=["judgement"])


class Question(Strict):
    """What was seen, under which contract, after what."""

    contract: dict[str, Any]
    history: list[dict[str, Any]] = Field(default_factory=list, max_length=100)
    observation: dict[str, Any]
    now: AwareDatetime | None = Field(default=None, strict=False)


@router.post("/classify", summary="Say what an observation means", openapi_extra=documented(Question))
def classify(request: HttpRequest) -> HttpResponse:
    """200 with the decision; stores nothing. The speaker that the observation states is trusted here."""
    dialect = dialect_of(request)
    body = body_of(request, Question)
    caller = caller_of(request, scope=Scope.OPERATIONS_READ)
    try:
        contract = parse_stated_contract(body.contract)
        judged = judge(
            contract=contract, history=body.history, observation=body.observation, now=body.now or caller.now
        )
    except ContractInvalid as error:
        problem = error.problems[0]
        raise Refusal(
            status=422,
            code="CONTRACT_INVALID",
            message=f"contract.{problem.path}: {problem.message}",
            hint="Correct the contract and ask again.",
            field=f"contract.{problem.path}".rstrip("."),
        ) from error
    except ObservationInvalid as error:
        where = error.field if error.field.startswith("history") else f"observation.{error.field}".rstrip(".")
        raise Refusal(
            status=422,
            code="OBSERVATION_INVALID",
            message=f"{where} {error.message}",
            hint="Correct the member and ask again.",
            field=where,
        ) from error
    return ok(written_judgement(judged, dialect=dialect))
