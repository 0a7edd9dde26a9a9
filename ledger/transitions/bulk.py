"""Freeze a set, begin a job on it, stop it, go on, and settle one member at a time.

A preview is a job that is `waiting`: its members and their versions stand in the database before anybody is asked to
confirm. Its id is its idempotency key. Nothing here acts on an operation: `recovery.bulk` does that, one member a
transaction, and each records what came of it in the same transaction through `record`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import orjson
from django.db import transaction

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.queries.bulk import WAITING_FROM, Job, Preview, job_of, preview_of
from ledger.queries.filters import Filter
from ledger.rules.bulk import (
    ANSWERS,
    CHANGED,
    MOST,
    PREVIEW_LASTS,
    UNDO_LASTS,
    Result,
    Verb,
    may_be_undone,
)
from ledger.transitions.person import Signer
from ledger.transitions.schedule import CLAIM

LONGEST_BECAUSE = 400
LONGEST_QUERY = 400
TOO_MANY = f"More than {MOST:,} match. Narrow the filter: one job acts on at most {MOST:,}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a person confirmed."""

    verb: Verb
    reason: str = ""
    evidence_url: str = ""
    options: Mapping[str, Any]
    """What the verb needs: person, until, wakes_on, label, text."""
    first: int | None
    """Do only so many, then stop until somebody goes on; None: all."""
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBegun:
    """Nothing was begun."""

    sentence: str
    frozen_anew: bool
    """The set has moved since it was previewed; it is frozen as it is now, and has to be looked at again."""


def freeze_filter(*, workspace_id: UUID, by: Signer, filter: Filter, query: str) -> UUID | str:
    """Freeze everything that matches. Returns the preview's id; a sentence when there is nothing to freeze.

    An empty filter never means everything.
    """
    if filter.is_empty:
        return "Write a filter first: an empty one never means everything."
    where, params = filter.where()
    found = f"SELECT o.id, o.version, o.created_at FROM operation o WHERE o.workspace_id = %(workspace)s{where}"  # noqa: S608
    return _freeze(workspace_id, by, found=found, params=params, query=query)


def freeze_ids(*, workspace_id: UUID, by: Signer, ids: Sequence[UUID], query: str = "") -> UUID | str:
    """Freeze the operations that were ticked; those of another workspace are not there."""
    found = "SELECT o.id, o.version, o.created_at FROM operation o WHERE o.workspace_id = %(workspace)s AND o.id = ANY(%(ids)s::uuid[])"
    return _freeze(workspace_id, by, found=found, params={"ids": list(ids)}, query=query)


def freeze_left_over(*, job: Job, workspace_id: UUID, by: Signer) -> UUID | str:
    """Freeze what a job did not do: what it skipped, failed at or did not come to."""
    found = (
        "SELECT o.id, o.version, o.created_at FROM bulk_member w JOIN operation o ON o.id = w.operation "
        "WHERE w.job_id = %(of)s AND w.result <> 'done' AND o.workspace_id = %(workspace)s"
    )
    return _freeze(workspace_id, by, found=found, params={"of": job.id}, query=job.query)


def freeze_unsigned(*, job: Job, workspace_id: UUID, by: Signer) -> UUID | str:
    """Freeze what waits for a second signature on a job's answer."""
    found = f"SELECT o.id, o.version, o.created_at {WAITING_FROM} AND o.workspace_id = %(workspace)s"
    options = {"signs": str(job.id), "verb": job.verb.value if job.verb else ""}
    return _freeze(workspace_id, by, found=found, params={"of": job.id}, query=job.query, options=options)


def freeze_again(*, job: Job) -> None:
    """Freeze the same members as they are now."""
    with transaction.atomic():
        rows = execute(
            "UPDATE bulk_job SET created_at = clock_timestamp() WHERE id = %s AND state = 'waiting' RETURNING id",
            [job.id],
        )
        if rows:
            execute(
                "UPDATE bulk_member m SET version_seen = o.version FROM operation o "
                "WHERE m.job_id = %s AND o.id = m.operation AND m.version_seen <> o.version",
                [job.id],
            )
            _sealed(job.id)


def begin(*, job: Job, workspace_id: UUID, by: Signer, order: Order, digest: bytes) -> Preview | NotBegun | None:
    """Begin what was confirmed, if it still is what `digest` stands for. Members that are not eligible are skipped at
    once. Returns the preview that it was begun on; None when it had been begun already: a form that is sent twice makes
    one job."""
    with transaction.atomic():
        execute("SELECT 1 FROM bulk_job WHERE id = %s FOR UPDATE", [job.id])
        now = job_of(workspace_id=workspace_id, id=job.id)
        if now is None or now.state != "waiting":
            return None
        if now.now - now.created_at > PREVIEW_LASTS:
            minutes = PREVIEW_LASTS.seconds // 60
            return _anew(now, f"Nothing was done: the preview was older than {minutes} minutes.")
        preview = preview_of(job=now, verb=order.verb, me=by.id)
        if preview.digest != digest:
            return _anew(now, "Nothing was done: some of these have changed since the preview.")
        if not preview.eligible:
            return NotBegun(sentence="Nothing was done: none of these is eligible.", frozen_anew=False)
        out = [(member.number, why) for member, why in preview.members if why]
        if order.verb in ANSWERS:
            out += [(member.number, CHANGED) for member in preview.eligible if member.moved]
        execute(
            "UPDATE bulk_member m SET result = 'skipped', because = left(out.why, %(longest)s), at = clock_timestamp() "
            "FROM unnest(%(numbers)s::int[], %(whys)s::text[]) AS out(number, why) "
            "WHERE m.job_id = %(job)s AND m.number = out.number",
            {
                "job": job.id, "numbers": [number for number, _ in out], "whys": [why for _, why in out],
                "longest": LONGEST_BECAUSE,
            },
        )  # fmt: skip
        skipped = {number for number, _ in out}
        take = [member.number for member in preview.eligible if member.number not in skipped]
        options = {**now.options, **order.options, "started_at": now.now.isoformat(), "left_out": len(out)}
        if order.first is not None and order.first < len(take):
            options["up_to"] = take[order.first - 1]
        execute(
            "UPDATE bulk_job SET state = 'running', verb = %(verb)s, reason = %(reason)s, evidence_url = %(link)s, "
            "options = %(options)s, set_digest = %(digest)s, per_second = %(rate)s, skipped = %(skipped)s WHERE id = %(id)s",
            {
                "id": job.id, "verb": order.verb.value, "reason": order.reason, "link": order.evidence_url,
                "options": _json(options), "digest": digest, "rate": order.per_second, "skipped": len(out),
            },
        )  # fmt: skip
        _told(workspace_id, by, job.id, order.verb, len(take))
    return preview


def undo(*, job: Job, workspace_id: UUID, by: Signer) -> UUID | str:
    """Begin to take a job back, member by member. Returns the job that does so, the same however often it is asked for;
    a sentence when it cannot be."""
    if job.verb is None or not may_be_undone(verb=job.verb.value):
        return "This job cannot be taken back."
    if job.person_id != by.id:
        return "Only the person who began this job can take it back."
    if job.state not in ("finished", "stopped"):
        return "Stop the job first."
    if job.ended_at is None or job.now - job.ended_at > UNDO_LASTS:
        return "It can be taken back for an hour after its end. Do the opposite instead."
    id = uuid5(job.id, "undo")
    with transaction.atomic():
        made = execute(
            "INSERT INTO bulk_job (id, workspace_id, person_id, verb, reason, evidence_url, options, query, set_digest, total, "
            "per_second, state, done, skipped, failed, created_at) "
            "SELECT %(id)s, workspace_id, person_id, 'undo', '', '', %(options)s, query, set_digest, done, 50, 'running', "
            "0, 0, 0, clock_timestamp() FROM bulk_job WHERE id = %(of)s AND done > 0 ON CONFLICT DO NOTHING RETURNING total",
            {
                "id": id,
                "of": job.id,
                "options": _json({"of": str(job.id), "verb": job.verb.value, "started_at": job.now.isoformat()}),
            },
        )
        if made:
            execute(
                "INSERT INTO bulk_member (job_id, number, operation, version_seen, result, because) "
                "SELECT %(id)s, m.number, m.operation, o.version, '', '' FROM bulk_member m JOIN operation o ON o.id = m.operation "
                "WHERE m.job_id = %(of)s AND m.result = 'done'",
                {"id": id, "of": job.id},
            )
            _told(workspace_id, by, id, Verb.UNDO, made[0][0])
        elif not job.done:
            return "It did nothing, so there is nothing to take back."
    return id


def stop(*, job_id: UUID) -> bool:
    """Stop a job that runs. What is being done at this moment is done; nothing after it is begun."""
    rows = execute(
        "UPDATE bulk_job SET state = 'stopped', ended_at = clock_timestamp() WHERE id = %s AND state = 'running' RETURNING id",
        [job_id],
    )
    return bool(rows)


def go_on(*, job_id: UUID) -> bool:
    """Go on with a job that was stopped, or that had done its first ones: with all that are left."""
    rows = execute(
        "UPDATE bulk_job SET state = 'running', ended_at = NULL, claimed_until = NULL, options = options - 'up_to' "
        "WHERE id = %s AND state = 'stopped' AND options ? 'started_at' RETURNING id",
        [job_id],
    )
    return bool(rows)


def unattended(*, most: int = 20) -> list[UUID]:
    """Jobs that run and that no worker has in hand, the oldest first. Ends the previews that nobody confirmed."""
    execute(
        "UPDATE bulk_job SET state = 'stopped' WHERE state = 'waiting' AND created_at < now() - %s", [PREVIEW_LASTS * 4]
    )
    rows = execute(
        "SELECT id FROM bulk_job WHERE state = 'running' AND (claimed_until IS NULL OR claimed_until <= now()) "
        "ORDER BY created_at LIMIT %s",
        [most],
    )
    return [row[0] for row in rows]


def take(*, job_id: UUID) -> Job | None:
    """Take a running job in hand for a while; None when somebody else has it or it runs no more. The hold lapses by
    itself: a worker that dies loses nothing but the time until then."""
    rows = execute(
        "UPDATE bulk_job SET claimed_until = clock_timestamp() + %(claim)s WHERE id = %(id)s AND state = 'running' "
        "AND (claimed_until IS NULL OR claimed_until <= now()) RETURNING workspace_id",
        {"id": job_id, "claim": CLAIM},
    )
    return job_of(workspace_id=rows[0][0], id=job_id) if rows else None


def put_down(*, job_id: UUID) -> None:
    """Give a job back, so that the next hand need not wait for the hold to lapse."""
    execute("UPDATE bulk_job SET claimed_until = NULL WHERE id = %s", [job_id])


def left_of(*, job: Job, most: int) -> list[tuple[int, UUID, int]]:
    """The next members to do: number, operation, and the version that was previewed."""
    rows = execute(
        "SELECT number, operation, version_seen FROM bulk_member WHERE job_id = %(job)s AND result = '' "
        "AND number <= coalesce(%(up_to)s::int, number) ORDER BY number LIMIT %(most)s",
        {"job": job.id, "up_to": job.options.get("up_to"), "most": most},
    )
    return [(number, operation, seen) for number, operation, seen in rows]


def end(*, job: Job) -> None:
    """Nothing is left to do: of all, and the job is finished; of the first ones, and it waits for somebody to go on."""
    execute(
        "UPDATE bulk_job SET state = CASE WHEN EXISTS (SELECT 1 FROM bulk_member m WHERE m.job_id = bulk_job.id "
        "AND m.result = '') THEN 'stopped' ELSE 'finished' END, ended_at = clock_timestamp(), claimed_until = NULL "
        "WHERE id = %s AND state = 'running'",
        [job.id],
    )


def locked(*, job_id: UUID, number: int) -> bool:
    """Lock a member whose turn it is; False when it was done meanwhile or somebody else is at it."""
    rows = execute(
        "SELECT 1 FROM bulk_member WHERE job_id = %s AND number = %s AND result = '' FOR UPDATE SKIP LOCKED",
        [job_id, number],
    )
    return bool(rows)


def record(*, job_id: UUID, number: int, result: Result, because: str) -> bool:
    """What came of a member, in the transaction that did it. False when the job was stopped meanwhile: the caller takes
    everything back."""
    execute(
        "UPDATE bulk_member SET result = %(result)s, because = left(%(because)s, %(longest)s), at = clock_timestamp() "
        "WHERE job_id = %(job)s AND number = %(number)s",
        {
            "job": job_id, "number": number, "result": result.value, "because": because, "longest": LONGEST_BECAUSE,
        },
    )  # fmt: skip
    column = result.value
    rows = execute(
        f"UPDATE bulk_job SET {column} = {column} + 1 WHERE id = %s AND state = 'running' RETURNING 1",  # noqa: S608
        [job_id],
    )
    return bool(rows)


def _freeze(
    workspace_id: UUID,
    by: Signer,
    *,
    found: str,
    params: Mapping[str, Any],
    query: str,
    options: Mapping[str, Any] | None = None,
) -> UUID | str:
    id = new_id()
    with transaction.atomic():
        # Members are never deleted, so their number is looked at before any is written.
        bound = {"workspace": workspace_id, **params, "most": MOST + 1}
        count = execute(f"SELECT count(*) FROM ({found} LIMIT %(most)s) found", bound)[0][0]  # noqa: S608
        if not count:
            return "Nothing to act on: none of these is here any more."
        if count > MOST:
            return TOO_MANY
        execute(
            "INSERT INTO bulk_job (id, workspace_id, person_id, verb, reason, evidence_url, options, query, set_digest, total, "
            "per_second, state, done, skipped, failed, created_at) VALUES (%(id)s, %(workspace)s, %(me)s, '', '', '', "
            "%(options)s, left(%(query)s, %(longest)s), '', 0, 20, 'waiting', 0, 0, 0, clock_timestamp())",
            {
                "id": id, "workspace": workspace_id, "me": by.id, "options": _json(dict(options or {})),
                "query": query, "longest": LONGEST_QUERY,
            },
        )  # fmt: skip
        execute(
            "INSERT INTO bulk_member (job_id, number, operation, version_seen, result, because) "  # noqa: S608
            "SELECT %(job)s, row_number() OVER (ORDER BY f.created_at DESC, f.id DESC), f.id, f.version, '', '' "
            f"FROM ({found} LIMIT %(most)s) f",
            {"job": id, **bound},
        )
        if _sealed(id) > MOST:
            transaction.set_rollback(True)
            return TOO_MANY
    return id


def _sealed(job_id: UUID) -> int:
    """Count a frozen set and keep the digest of its members and their versions. Returns the count."""
    rows = execute(
        "UPDATE bulk_job SET total = m.count, set_digest = m.digest FROM (SELECT count(*) AS count, sha256(convert_to("
        "string_agg(concat_ws(' ', number, operation, version_seen), E'\\n' ORDER BY number), 'UTF8')) AS digest "
        "FROM bulk_member WHERE job_id = %(job)s) m WHERE id = %(job)s RETURNING total",
        {"job": job_id},
    )
    return int(rows[0][0])


def _anew(job: Job, sentence: str) -> NotBegun:
    freeze_again(job=job)
    return NotBegun(sentence=sentence, frozen_anew=True)


def _told(workspace_id: UUID, by: Signer, job_id: UUID, verb: Verb, count: int) -> None:
    execute(
        "INSERT INTO desk_entry (id, workspace_id, person_id, verb, cause, after, at) "
        "VALUES (%s, %s, %s, 'bulk', '', %s, clock_timestamp())",
        [new_id(), workspace_id, by.id, _json({"job": str(job_id), "verb": verb.value, "count": count})],
    )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
