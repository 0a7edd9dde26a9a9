"""How is a decision read back from where it was kept?"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ledger.rules.decision import Decision
from ledger.rules.vocabulary import Action, Effect, FailureClass, Licence, Request


def decision_from(kept: Mapping[str, Any]) -> Decision | None:
    """The decision of a stored mapping; None for an empty one (nothing has been decided yet)."""
    if not kept:
        return None
    not_before = kept.get("not_before")
    licence = kept.get("licence")
    return Decision(
        recovery_action=Action(kept["recovery_action"]),
        failure_class=FailureClass(kept["failure_class"]),
        effect_status=Effect(kept["effect_status"]),
        request=Request(kept["request"]),
        rule=kept["rule"],
        code=kept["code"],
        hint=kept["hint"],
        message=kept["message"],
        retry_after_ms=kept.get("retry_after_ms"),
        not_before=datetime.fromisoformat(not_before) if not_before else None,
        field=kept.get("field"),
        licence=Licence(licence) if licence else None,
        alternatives=tuple(kept.get("alternatives", ())),
    )
