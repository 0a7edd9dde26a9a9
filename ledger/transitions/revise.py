"""Give an operation a new payload in place of one that was refused."""

from typing import Any

import orjson

from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.items import looks_next
from ledger.rules.payload import canonical, digest_of, raw
from ledger.rules.revisions import BUDGET, RevisionKind
from ledger.transitions.change import Change, write
from ledger.transitions.items import sooner


def revise(
    *,
    held: Held,
    kind: RevisionKind,
    payload: Any,
    identity_digest: str | None,
    field: str | None,
    reason: str,
    actor: str,
    keys: tuple[str, ...] = (),
) -> int | None:
    """Add the next revision with its payload and digest; the harness asks for its permit afterwards. One transaction.

    The caller asked `ledger.rules.revisions.may_revise` (of a batch: `may_revise_items`) first. `identity_digest` is the
    new payload's: it differs from the row's only where every member makes the intent. `keys`: of a batch, the items that
    it carries. Returns the new version; None when the operation moved since `held` was read.

    Raises:
        django.db.IntegrityError: another unsettled operation holds that identity.
    """
    facts = held.facts
    body = canonical(payload)
    number = facts.revision + 1
    original = new_id()
    budget = facts.budgets.get(BUDGET[kind])
    digest = raw(digest_of(body))
    return write(
        Change(
            id=held.id,
            version=facts.version,
            at=held.now,
            verb="revise",
            actor=actor,
            set={
                "revision": number,
                "payload_digest": digest,
                "identity_digest": raw(identity_digest) if identity_digest else None,
                BUDGET[kind]: (int(budget.used) if budget else 0) + 1,
                "first_sent_at": None,
                "decision": {},
            },
            next_check_at=sooner(facts.deadline_at, looks_next(facts)),
            said={"kind": kind.value, "reason": reason, "field": field},
            originals=({"id": original, "kind": "payload", "body": body.decode()},),
            revision={
                "number": number,
                "digest": digest,
                "original": original,
                "kind": kind.value,
                "reason": reason,
                "field": field,
                "keys": orjson.dumps(keys).decode() if keys else None,
                "created_at": held.now,
            },
        )
    )
