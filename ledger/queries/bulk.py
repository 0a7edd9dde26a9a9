"""Jobs in bulk: their frozen members, who of them is eligible, how far a job is, and what came of each member."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.queries.contracts import contract_by_id
from ledger.queries.desk import DESK_JOINS, HOLDER, NAME, SNOOZED_UNTIL
from ledger.queries.facts import held
from ledger.rules.bulk import ANSWERS, BY_TWO, MOST_AT_RISK, Member, Result, Verb, digest_of, why_left_out
from ledger.rules.resolutions import Answer, Offer, offers
from ledger.rules.vocabulary import Effect, Outcome, Speaker, State

PAGE = 50
SAMPLES = 6
SHOWN_FOR = timedelta(hours=12)
"""A job that has ended is listed beside the queue for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: a preview while it is `waiting`, then what was decided and how far it is."""

    id: UUID
    workspace_id: UUID
    person_id: int
    person: str
    """Their name."""
    username: str
    verb: Verb | None
    """None: not chosen yet."""
    reason: str
    evidence_url: str
    options: Mapping[str, Any]
    query: str
    digest: bytes
    total: int
    per_second: float
    state: str
    """waiting: previewed and not begun; running; stopped; finished."""
    done: int
    skipped: int
    failed: int
    created_at: datetime
    ended_at: datetime | None
    now: datetime

    @property
    def left(self) -> int:
        return self.total - self.done - self.skipped - self.failed

    @property
    def mark(self) -> str:
        """Another one whenever it reads differently."""
        return f"{self.state}{self.done}.{self.skipped}.{self.failed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a verb would do to a frozen set now."""

    members: tuple[tuple[Member, str], ...]
    """Each with why it is left out; empty: it is eligible."""
    digest: bytes

    @property
    def eligible(self) -> tuple[Member, ...]:
        return tuple(member for member, why in self.members if not why)

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """Each distinct reason with how many it keeps out, the commonest first."""
        return tuple(Counter(why for _, why in self.members if why).most_common())

    @property
    def moved(self) -> int:
        """Members whose version is another one than was frozen."""
        return sum(member.moved for member, _ in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """One member as a list shows it."""

    number: int
    id: UUID
    tool: str
    operation_id: str
    state: State
    effect: Effect
    outcome: Outcome | None
    result: Result | None
    because: str
    at: datetime | None


def job_of(*, workspace_id: UUID, id: UUID) -> Job | None:
    """One job of a workspace; None looks alike for absent and for another's."""
    rows = execute(f"{_JOBS} AND j.id = %(id)s", {"workspace": workspace_id, "id": id})
    return _job(rows[0]) if rows else None


def jobs_of(*, workspace_id: UUID, most: int = 30) -> tuple[Job, ...]:
    """The newest jobs of a workspace that were begun."""
    rows = execute(
        f"{_JOBS} AND (j.state IN ('running', 'finished') OR j.options ? 'started_at') "
        "ORDER BY j.created_at DESC, j.id DESC LIMIT %(most)s",
        {"workspace": workspace_id, "most": most},
    )
    return tuple(_job(row) for row in rows)


def jobs_beside(*, workspace_id: UUID, person_id: int, most: int = 5) -> tuple[Job, ...]:
    """What stands beside the queue: everybody's jobs that run, and the person's own that ended lately or were stopped."""
    rows = execute(
        f"{_JOBS} AND j.created_at > now() - %(within)s AND (j.state = 'running' OR (j.person_id = %(me)s "
        "AND j.options ? 'started_at')) ORDER BY j.state = 'running' DESC, j.created_at DESC, j.id DESC LIMIT %(most)s",
        {"workspace": workspace_id, "me": person_id, "within": SHOWN_FOR, "most": most},
    )
    return tuple(_job(row) for row in rows)


def preview_of(*, job: Job, verb: Verb, me: int) -> Preview:
    """Who of a frozen set is eligible for a verb now, and the digest of that. Two statements for the members whatever
    their number, and one for each kind of operation among them where the verb is an answer."""
    members = _answerable(job, verb) if verb in ANSWERS else _at_the_desk(job)
    sorted_out = tuple(
        (member, why_left_out(verb=verb, member=member, me=me, frozen_at=job.created_at)) for member in members
    )
    digest = digest_of(verb=verb, members=((member, not why) for member, why in sorted_out))
    return Preview(members=sorted_out, digest=digest)


def members_of(
    *,
    job_id: UUID,
    results: Sequence[str] | None = None,
    numbers: Sequence[int] | None = None,
    after: int = 0,
    most: int = PAGE,
) -> tuple[MemberRow, ...]:
    """Members of a job in their order, those behind number `after`; with `results`, those of which that came (empty text:
    whose turn has not come); with `numbers`, those."""
    rows = execute(
        "SELECT m.number, o.id, t.name, o.operation_id, o.state, o.effect, o.outcome, m.result, m.because, m.at "
        "FROM bulk_member m JOIN operation o ON o.id = m.operation JOIN tool t ON t.id = o.tool_id "
        "WHERE m.job_id = %(job)s AND m.number > %(after)s AND (%(results)s::text[] IS NULL OR m.result = ANY(%(results)s::text[])) "
        "AND (%(numbers)s::int[] IS NULL OR m.number = ANY(%(numbers)s::int[])) "
        "ORDER BY m.number LIMIT %(most)s",
        {
            "job": job_id,
            "after": after,
            "results": list(results) if results is not None else None,
            "numbers": list(numbers) if numbers is not None else None,
            "most": most,
        },
    )
    return tuple(
        MemberRow(
            number=number, id=id, tool=tool, operation_id=name, state=State(state), effect=Effect(effect),
            outcome=Outcome(outcome) if outcome else None, result=Result(result) if result else None,
            because=because, at=at,
        )
        for number, id, tool, name, state, effect, outcome, result, because, at in rows
    )  # fmt: skip


def results_of(*, job_id: UUID) -> tuple[tuple[Result, str, int], ...]:
    """What came of a job's members: each result and reason with how many, the commonest first."""
    rows = execute(
        "SELECT result, because, count(*) FROM bulk_member WHERE job_id = %s AND result <> '' "
        "GROUP BY result, because ORDER BY count(*) DESC, result, because LIMIT 20",
        [job_id],
    )
    return tuple((Result(result), because, count) for result, because, count in rows)


def waiting_for_another(*, job_id: UUID) -> int:
    """How many of a job's members wait for a second signature on the answer that the job gave."""
    return int(execute(f"SELECT count(*) {WAITING_FROM}", {"of": job_id})[0][0])


def act_of(*, job_id: UUID, operation: UUID) -> UUID | None:
    """The act at the desk that a job did to one of its members; None when it changed nothing there."""
    rows = execute(
        "SELECT e.id FROM bulk_job j JOIN bulk_member m ON m.job_id = j.id JOIN desk_entry e ON e.operation = m.operation "
        "AND e.person_id = j.person_id AND e.verb = j.verb AND e.at BETWEEN j.created_at AND m.at "
        "WHERE j.id = %s AND m.operation = %s AND m.result = 'done' AND m.because = '' ORDER BY e.at DESC, e.id DESC LIMIT 1",
        [job_id, operation],
    )
    return rows[0][0] if rows else None


def acted_on_since(*, operation: UUID, at: datetime) -> bool:
    """Whether somebody has changed who holds an operation, its sleep or its labels after a time."""
    return bool(execute("SELECT 1 FROM desk WHERE operation = %s AND changed_at > %s", [operation, at]))


WAITING_FROM = (
    "FROM bulk_member w JOIN bulk_job b ON b.id = w.job_id JOIN operation o ON o.id = w.operation "
    "JOIN attestation a ON a.id = o.awaits_signature_id "
    "WHERE w.job_id = %(of)s AND w.result = 'done' AND a.person_id = b.person_id AND a.answer = b.verb"
)
"""A job's members that wait for a second signature, as `o`, over the parameter `of`."""
_JOBS = (
    f"SELECT j.id, j.workspace_id, j.person_id, {NAME.format(p='p')}, p.username, j.verb, j.reason, j.evidence_url, j.options::text, j.query, j.set_digest, "  # noqa: S608
    "j.total, j.per_second, j.state, j.done, j.skipped, j.failed, j.created_at, j.ended_at, now() "
    "FROM bulk_job j JOIN person p ON p.id = j.person_id WHERE j.workspace_id = %(workspace)s"
)
_KNOWN = "concat_ws(' ', o.state, o.effect, o.verification, o.outcome, o.revision, o.awaits_signature_id)"
_MEMBER = "m.number, o.id, m.version_seen, o.version, o.state, "
_FROM = "FROM bulk_member m JOIN operation o ON o.id = m.operation"


def _at_the_desk(job: Job) -> list[Member]:
    rows = execute(
        f"SELECT {_MEMBER} concat_ws(' ', {_KNOWN}, {HOLDER}, {SNOOZED_UNTIL}), holder.id, {NAME.format(p='holder')}, "
        "(d.held_until > now()) IS NOT TRUE AND g.held_until > now(), coalesce(jsonb_array_length(d.labels), 0) "
        f"{_FROM} {DESK_JOINS} WHERE m.job_id = %(job)s ORDER BY m.number",
        {"job": job.id},
    )
    return [
        Member(
            number=number, id=id, version_seen=seen, version=version, state=State(state), known=known,
            holder_id=holder_id, holder=holder or "", held_by_group=bool(by_group), labels=labels,
        )
        for number, id, seen, version, state, known, holder_id, holder, by_group, labels in rows
    ]  # fmt: skip


def _answerable(job: Job, verb: Verb) -> list[Member]:
    looked = "NULL::timestamptz"
    if verb in BY_TWO:
        looked = (
            "(SELECT max(e.observed_at) FROM evidence e WHERE e.operation = o.id AND e.speaker = ANY(%(ours)s) "
            "AND e.outcome IN ('found', 'no_match') AND e.coverage = 'complete')"
        )
    rows = execute(
        f"SELECT {_MEMBER} {_KNOWN}, o.effect, o.contract_id, EXISTS (SELECT 1 FROM attempt t WHERE t.operation = o.id), "  # noqa: S608
        "EXISTS (SELECT 1 FROM item i WHERE i.operation = o.id), a.answer, a.person_id, "
        f"{looked} {_FROM} LEFT JOIN attestation a ON a.id = o.awaits_signature_id WHERE m.job_id = %(job)s ORDER BY m.number",
        {"job": job.id, **({"ours": _ASKED_BY_US} if verb in BY_TWO else {})},
    )
    one_by_one = verb is Verb.ACCEPT_DUPLICATE_RISK
    offered: dict[Any, Offer | None] = {}
    members = []
    for number, id, seen, version, state, known, effect, contract_id, sent, batch, answer, person_id, at in rows:
        # Whether an answer is open depends on these alone (ledger.rules.resolutions), so each kind is asked of once. The
        # risk of a duplicate depends on every attempt.
        kind = id if one_by_one else (contract_id, state, effect, sent, batch)
        if kind not in offered:
            too_many = one_by_one and job.total > MOST_AT_RISK
            offered[kind] = None if too_many else _offer(id, verb)
        member = Member(
            number=number, id=id, version_seen=seen, version=version, state=State(state), known=known,
            offer=offered[kind], waits_for=Answer(answer) if answer else None, waits_from=person_id,
            looked_at=at, lag=_lag(contract_id),
        )  # fmt: skip
        members.append(member)
    return members


_ASKED_BY_US = [Speaker.OWNER_STATUS.value, Speaker.OWNER_INDEX.value]


def _offer(id: UUID, verb: Verb) -> Offer | None:
    one = held(id=id)
    return offer_of(verb=verb, facts=one.facts, contract=one.contract, now=one.now) if one is not None else None


def offer_of(*, verb: Verb, facts: Any, contract: Any, now: datetime) -> Offer:
    """The answer that a verb gives, as it is open for one operation. By two people always count for two, in bulk."""
    answer = ANSWERS[verb]
    found = next(
        offer
        for offer in offers(facts=facts, contract=contract, now=now, blocked_by_identity=False)
        if offer.answer is answer
    )
    return replace(found, needs_second_person=True) if verb in BY_TWO else found


def _lag(contract_id: UUID) -> timedelta | None:
    return max((rule.lag for rule in contract_by_id(contract_id).lookup if rule.lag is not None), default=None)


def _job(row: tuple[Any, ...]) -> Job:
    (
        id, workspace_id, person_id, person, username, verb, reason, evidence_url, options, query, digest, total,
        per_second, state,
        done, skipped, failed, created_at, ended_at, now,
    ) = row  # fmt: skip
    return Job(
        id=id, workspace_id=workspace_id, person_id=person_id, person=person, username=username, verb=Verb(verb) if verb else None, reason=reason,
        evidence_url=evidence_url, options=orjson.loads(options), query=query, digest=bytes(digest), total=total,
        per_second=per_second, state=state, done=done, skipped=skipped, failed=failed, created_at=created_at,
        ended_at=ended_at, now=now,
    )  # fmt: skip
