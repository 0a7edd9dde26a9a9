"""What people do with operations while they work on them: hold, hand on, put to sleep, label, write, take back.

Each function is one durable transaction: the desk's row, locked and read again, and the act in `desk_entry`. None of
it moves an operation's version, and nothing here changes what is known of an operation. Who lost a race is told who
won. Roles are the caller's to ask (`ledger.rules.desk.may_act`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.queries.desk import ACTING, DeskRow, desk_of, entry, last_to_change, named
from ledger.rules.desk import (
    ASSIGNMENT_LASTS,
    CLAIM_LASTS,
    MOST_LABELS,
    RENEWED_BELOW,
    UNDO_ACCEPTED,
    UNDO_OFFERED,
    Subject,
    Verb,
    WakesOn,
    may_be_undone,
    mentioned,
    why_not_label,
    why_not_note,
    why_not_snooze,
    why_not_undo,
)
from ledger.transitions.person import Signer

TOUCHED_AGAIN = timedelta(seconds=20)
"""A look is written down again only after this long."""
FORGOTTEN = timedelta(minutes=10)
MOST_WOKEN = 200
MOST_COUNTED = 1000
"""Operations of a group are counted this far."""
_MEMBERS = (
    "SELECT 1 FROM operation o WHERE o.workspace_id = g.workspace_id AND o.tool_id = g.tool_id AND o.cause = g.cause "
    "AND o.state <> 'settled'"
)
_RENEWS = "(d.holder_id = %(person)s AND d.held_until > now() AND d.held_until < now() + %(below)s)"
_TIMES = frozenset({"held_until", "snoozed_until", "woken_at"})
_NOTHING_TO_HOLD = "It is settled: there is nothing left to hold or to wait for."


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the person saw before they acted; a desk that says something else by then refuses them."""

    holder_id: int | None
    snoozed_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """It is done."""

    entry_id: UUID | None
    """The act as it was recorded; None when everything was so already and nothing was written."""
    desk: DeskRow
    undo_until: datetime | None
    """Until when taking it back is offered; None where it cannot be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It was not done, and nothing was changed."""

    sentence: str
    lost: bool
    """Somebody else was first; False: it is not possible or not well formed."""
    desk: DeskRow | None


def claim(*, subject: Subject, by: Signer) -> Acted | Refused:
    """Hold it for half an hour. Refused when somebody else does; one's own claim begins anew.

    Raises:
        LookupError: it is not in the workspace. (So does every function here.)
    """

    def decide(at: _At) -> dict[str, Any] | Refused:
        row = at.row
        if row.holder_id not in (None, by.id):
            return at.lost(f"{row.holder_name} holds {'this group' if row.held_by_group else 'it'} already.")
        return _held_by(by.id, at.now + CLAIM_LASTS)

    return _act(subject, by, Verb.CLAIM, decide, unsettled=True)


def release(*, subject: Subject, by: Signer) -> Acted | Refused:
    """Hold it no longer. Refused for somebody else's claim; that one lapses or is assigned."""

    def decide(at: _At) -> dict[str, Any] | Refused:
        row = at.row
        if row.holder_id is None:
            return {}
        if row.holder_id != by.id:
            return at.lost(f"{row.holder_name} holds it, not you. Assign it to yourself to take it over.")
        if row.held_by_group and not subject.is_group:
            return at.refused("You hold the whole group. Release the group, or assign this one to somebody.")
        return _held_by(None, None)

    return _act(subject, by, Verb.RELEASE, decide)


def assign(*, subject: Subject, by: Signer, person_id: int, seen: Seen | None = None) -> Acted | Refused:
    """Have somebody hold it: an operator or admin of the workspace. Refused when another person than the one that was
    seen holds it by now."""

    def decide(at: _At) -> dict[str, Any] | Refused:
        return at.holder_moved(seen, by) or at.cannot_hold(person_id) or _given_to(person_id, by, at.now)

    return _act(subject, by, Verb.ASSIGN, decide, unsettled=True)


def hand_over(
    *, subject: Subject, by: Signer, person_id: int | None, text: str, seen: Seen | None = None
) -> Acted | Refused:
    """Pass it to somebody, or back to the queue (`person_id` None), with a note that says where things stand."""
    if wrong := why_not_note(text):
        return Refused(sentence=wrong, lost=False, desk=desk_of(subject=subject))

    def decide(at: _At) -> dict[str, Any] | Refused:
        refused = at.holder_moved(seen, by) or (at.cannot_hold(person_id) if person_id is not None else None)
        if refused:
            return refused
        id = _write_note(subject, by, text, at.now)
        return {**_given_to(person_id, by, at.now), "note": str(id)}

    return _act(subject, by, Verb.HAND_OVER, decide, unsettled=person_id is not None)


def snooze(
    *, subject: Subject, by: Signer, until: datetime, wakes_on: WakesOn = WakesOn.TIME, seen: Seen | None = None
) -> Acted | Refused:
    """Put it to sleep until a time at the latest; `wakes_on` may end that sooner (see `wake_due`)."""

    def decide(at: _At) -> dict[str, Any] | Refused:
        if wrong := why_not_snooze(until=until, now=at.now):
            return at.refused(wrong)
        return at.snooze_moved(seen) or _asleep(until, wakes_on)

    return _act(subject, by, Verb.SNOOZE, decide, unsettled=True)


def wake(*, subject: Subject, by: Signer, seen: Seen | None = None) -> Acted | Refused:
    """End its sleep now."""

    def decide(at: _At) -> dict[str, Any] | Refused:
        if at.row.snoozed_until is None:
            return {}
        if at.row.snoozed_by_group and not subject.is_group:
            return at.refused("The whole group sleeps. Wake the group.")
        return at.snooze_moved(seen) or _asleep(None, WakesOn.TIME)

    return _act(subject, by, Verb.WAKE, decide)


def label(*, subject: Subject, by: Signer, text: str) -> Acted | Refused:
    """Give an operation a label."""
    wrong = why_not_label(text)

    def decide(at: _At) -> dict[str, Any] | Refused:
        if wrong:
            return at.refused(wrong)
        if text in at.row.labels:
            return {}
        if len(at.row.labels) >= MOST_LABELS:
            return at.refused(f"It has {MOST_LABELS} labels already. Take one away first.")
        return {"label": text, "had": True}

    return _act(subject, by, Verb.LABEL, decide)


def unlabel(*, subject: Subject, by: Signer, text: str) -> Acted | Refused:
    """Take a label from an operation."""

    def decide(at: _At) -> dict[str, Any] | Refused:
        return {"label": text, "had": False} if text in at.row.labels else {}

    return _act(subject, by, Verb.UNLABEL, decide)


def note(*, subject: Subject, by: Signer, text: str) -> Acted | Refused:
    """Write beside an operation or a group. People of the workspace whom it names with @ find it in their work."""
    wrong = why_not_note(text)

    def decide(at: _At) -> dict[str, Any] | Refused:
        if wrong:
            return at.refused(wrong)
        return {"note": str(_write_note(subject, by, text, at.now))}

    return _act(subject, by, Verb.NOTE, decide)


def seen(*, subject: Subject, by: Signer) -> Acted | Refused:
    """The person has seen what woke, or where they were mentioned: it leaves their list."""

    return _act(subject, by, Verb.SEEN, lambda _at: {"woken_at": None})


def undo(*, workspace_id: UUID, entry_id: UUID, by: Signer, within: timedelta = UNDO_ACCEPTED) -> Acted | Refused:
    """Take an act back by another entry, while it is fresh and nobody has changed the same thing since."""
    found = entry(workspace_id=workspace_id, id=entry_id)
    if found is None:
        raise LookupError(entry_id)

    def decide(at: _At) -> dict[str, Any] | Refused:
        # Read again under the lock: the other act may have come in between.
        kept = entry(workspace_id=workspace_id, id=entry_id)
        if kept is None:
            raise LookupError(entry_id)
        if wrong := why_not_undo(kept=kept.kept, person_id=by.id, now=at.now, within=within):
            return at.refused(wrong, lost=bool(kept.kept.since))
        return dict(kept.before)

    return _act(found.subject, by, Verb.UNDO, decide, undoes=entry_id)


def hand_over_all(*, workspace_id: UUID, by: Signer, person_id: int | None, text: str, most: int = 500) -> int | str:
    """Pass everything that the person holds to somebody, or back to the queue, with one note on each.

    Returns how many operations and groups moved, at most `most`; a sentence when nothing could be done.
    """
    if wrong := why_not_note(text):
        return wrong
    with transaction.atomic():
        held = execute(
            "SELECT d.operation, NULL::uuid, '' FROM desk d JOIN operation o ON o.id = d.operation WHERE d.workspace_id = %(workspace)s "
            "AND d.holder_id = %(person)s AND d.held_until > now() AND o.state <> 'settled' "
            "UNION ALL SELECT NULL, g.tool_id, g.cause FROM cause_desk g WHERE g.workspace_id = %(workspace)s "
            "AND g.holder_id = %(person)s AND g.held_until > now() ORDER BY 1, 2, 3 LIMIT %(most)s",
            {"workspace": workspace_id, "person": by.id, "most": most},
        )
        moved = 0
        for operation, tool_id, cause in held:
            subject = Subject(workspace_id=workspace_id, operation=operation, tool_id=tool_id, cause=cause)
            came = hand_over(
                subject=subject, by=by, person_id=person_id, text=text, seen=Seen(holder_id=by.id, snoozed_until=None)
            )
            if isinstance(came, Acted):
                moved += 1
            elif not came.lost:
                transaction.set_rollback(True)
                return came.sentence
    return moved


def look(*, subject: Subject, person_id: int, acts: bool) -> None:
    """Note that somebody looks at an operation, and keep their claim from lapsing. A look by somebody who `acts` also ends
    that it counts as woken and unseen. One statement; that somebody looks is written at most every 20 seconds."""
    execute(
        "WITH here AS (SELECT id FROM operation WHERE id = %(operation)s AND workspace_id = %(workspace)s), "  # noqa: S608
        "kept AS (UPDATE desk d SET woken_at = CASE WHEN %(acts)s THEN NULL ELSE d.woken_at END, "
        f"held_until = CASE WHEN {_RENEWS} THEN clock_timestamp() + %(lasts)s ELSE d.held_until END FROM here "
        f"WHERE d.operation = here.id AND ({_RENEWS} OR (%(acts)s AND d.woken_at IS NOT NULL))), "
        "groups AS (UPDATE cause_desk g SET held_until = clock_timestamp() + %(lasts)s FROM here JOIN operation o ON o.id = here.id "
        "WHERE g.tool_id = o.tool_id AND g.cause = o.cause AND g.holder_id = %(person)s AND g.held_until > now() "
        "AND g.held_until < now() + %(below)s) "
        "INSERT INTO presence (operation, person_id, seen_at) SELECT id, %(person)s, clock_timestamp() FROM here "
        "WHERE NOT EXISTS (SELECT 1 FROM presence p WHERE p.operation = here.id AND p.person_id = %(person)s "
        "AND p.seen_at >= now() - %(again)s) ON CONFLICT (operation, person_id) DO UPDATE SET seen_at = EXCLUDED.seen_at",
        {
            **named(subject),
            "person": person_id,
            "acts": acts,
            "lasts": CLAIM_LASTS,
            "below": RENEWED_BELOW,
            "again": TOUCHED_AGAIN,
        },
    )


def wake_due(*, most: int = MOST_WOKEN) -> int:
    """End the snoozes whose time has come or whose rule has come true: at most `most` operations and `most` groups.

    Says who had set each, and why it ended. What has settled meanwhile is woken without troubling anybody. A group wakes
    on evidence of any of its operations, and on a change of how many there are. Intake knows nothing of snoozes: rules are
    compared here, so a snooze ends one tick of beat late. Forgets who looked long ago.
    """
    woken = execute(_WAKE_OPERATIONS, {"most": most})
    woken += execute(_WAKE_GROUPS, {"most": most})
    for operation, tool_id, cause, workspace_id, person_id, because, now in woken:
        if person_id is None:
            continue
        execute(
            "INSERT INTO desk_entry (id, workspace_id, person_id, verb, operation, tool_id, cause, after, at) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [new_id(), workspace_id, person_id, Verb.WOKE.value, operation, tool_id, cause,
             _json({"snoozed_until": None, "because": because}), now],
        )  # fmt: skip
    execute("DELETE FROM presence WHERE seen_at < now() - %s", [FORGOTTEN])
    return len(woken)


_NEWS = "e.outcome NOT IN ('lookup_failed', 'no_match', 'inconclusive')"
_OWNER_BACK = (
    "EXISTS (SELECT 1 FROM tool t JOIN owner_state st ON st.owner = t.owner_id WHERE t.id = {tool} AND st.circuit = 'closed' "
    "AND st.last_success_at > set_by.at AND (st.paused_until IS NULL OR st.paused_until <= now()))"
)
_SET_BY = (
    "LEFT JOIN LATERAL (SELECT e.person_id, e.after, e.at FROM desk_entry e WHERE {about} AND e.verb = 'snooze' "
    "ORDER BY e.at DESC, e.id DESC LIMIT 1) set_by ON true"
)
_WAKE_OPERATIONS = f"""
    WITH asleep AS (
      SELECT d.operation, o.state, set_by.person_id, CASE
        WHEN d.snoozed_until <= now() THEN 'time'
        WHEN o.state = 'settled' OR d.wakes_on = 'state_change' AND o.state <> set_by.after ->> 'state' THEN 'state_change'
        WHEN d.wakes_on = 'evidence' AND EXISTS (SELECT 1 FROM evidence e WHERE e.operation = o.id
          AND e.seq > (set_by.after ->> 'version')::int AND {_NEWS}) THEN 'evidence'
        WHEN d.wakes_on = 'owner_back' AND {_OWNER_BACK.format(tool="o.tool_id")} THEN 'owner_back' END AS because
      FROM desk d JOIN operation o ON o.id = d.operation {_SET_BY.format(about="e.operation = d.operation")}
      WHERE d.snoozed_until IS NOT NULL
    ), due AS MATERIALIZED (SELECT * FROM asleep WHERE because IS NOT NULL LIMIT %(most)s),
    free AS MATERIALIZED (SELECT d.operation FROM desk d JOIN due ON due.operation = d.operation FOR UPDATE OF d SKIP LOCKED)
    UPDATE desk SET snoozed_until = NULL, wakes_on = '', changed_at = clock_timestamp(),
      woken_at = CASE WHEN due.state = 'settled' THEN NULL ELSE clock_timestamp() END
    FROM due JOIN free ON free.operation = due.operation
    WHERE desk.operation = due.operation AND desk.snoozed_until IS NOT NULL
    RETURNING desk.operation, NULL::uuid, '', desk.workspace_id, due.person_id, due.because, clock_timestamp()
"""  # noqa: S608 - pieces of ours
_WAKE_GROUPS = f"""
    WITH asleep AS (
      SELECT g.tool_id, g.cause, set_by.person_id, CASE
        WHEN g.snoozed_until <= now() THEN 'time'
        WHEN g.wakes_on = 'state_change' AND (SELECT count(*) FROM ({_MEMBERS} LIMIT {MOST_COUNTED}) member)
          <> (set_by.after ->> 'members')::int THEN 'state_change'
        WHEN g.wakes_on = 'evidence' AND EXISTS ({_MEMBERS} AND o.changed_at > set_by.at AND EXISTS (
          SELECT 1 FROM evidence e WHERE e.operation = o.id AND e.observed_at > set_by.at AND {_NEWS})) THEN 'evidence'
        WHEN g.wakes_on = 'owner_back' AND {_OWNER_BACK.format(tool="g.tool_id")} THEN 'owner_back' END AS because
      FROM cause_desk g {_SET_BY.format(about="e.operation IS NULL AND e.tool_id = g.tool_id AND e.cause = g.cause")}
      WHERE g.snoozed_until IS NOT NULL
    ), due AS MATERIALIZED (SELECT * FROM asleep WHERE because IS NOT NULL LIMIT %(most)s),
    free AS MATERIALIZED (SELECT g.tool_id, g.cause FROM cause_desk g JOIN due ON due.tool_id = g.tool_id AND due.cause = g.cause
      FOR UPDATE OF g SKIP LOCKED)
    UPDATE cause_desk SET snoozed_until = NULL, wakes_on = '', changed_at = clock_timestamp()
    FROM due JOIN free ON free.tool_id = due.tool_id AND free.cause = due.cause
    WHERE cause_desk.tool_id = due.tool_id AND cause_desk.cause = due.cause AND cause_desk.snoozed_until IS NOT NULL
    RETURNING NULL::uuid, cause_desk.tool_id, cause_desk.cause, cause_desk.workspace_id, due.person_id, due.because,
      clock_timestamp()
"""  # noqa: S608 - pieces of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """A desk as it is under the lock."""

    subject: Subject
    row: DeskRow
    own: dict[str, Any]
    """The row's own columns; of a claim that has lapsed and a snooze that is over, nothing."""
    settled: bool
    facts: dict[str, Any]
    """What a wake rule is compared with later."""
    now: datetime

    def refused(self, sentence: str, *, lost: bool = False) -> Refused:
        return Refused(sentence=sentence, lost=lost, desk=self.row)

    def lost(self, sentence: str) -> Refused:
        return self.refused(sentence, lost=True)

    def holder_moved(self, seen: Seen | None, by: Signer) -> Refused | None:
        if seen is None or self.row.holder_id in (None, by.id, seen.holder_id):
            return None
        return self.lost(f"{self.row.holder_name} holds it by now.")

    def snooze_moved(self, seen: Seen | None) -> Refused | None:
        until = self.row.snoozed_until
        if seen is None or until is None or until == seen.snoozed_until:
            return None
        who = last_to_change(subject=self.subject, columns=("snoozed_until",))
        return self.lost(f"{who or 'Somebody'} has put it to sleep since.")

    def cannot_hold(self, person_id: int) -> Refused | None:
        rows = execute(
            "SELECT 1 FROM membership m JOIN person p ON p.id = m.person_id WHERE m.workspace_id = %s AND m.person_id = %s "
            "AND m.role = ANY(%s) AND p.is_active LIMIT 1",
            [self.subject.workspace_id, person_id, list(ACTING)],
        )
        return None if rows else self.refused("Choose an operator or an admin of this workspace.")


def _act(
    subject: Subject,
    by: Signer,
    verb: Verb,
    decide: Callable[[_At], dict[str, Any] | Refused],
    *,
    unsettled: bool = False,
    undoes: UUID | None = None,
) -> Acted | Refused:
    """Lock, read, decide, write. What `decide` returns is what becomes of the desk; nothing: it is so already."""
    with transaction.atomic():
        at = _locked(subject)
        if unsettled and at.settled:
            return at.refused(_NOTHING_TO_HOLD)
        decided = decide(at)
        if isinstance(decided, Refused):
            return decided
        if not decided:
            return Acted(entry_id=None, desk=at.row, undo_until=None)
        labels = list(at.own.get("labels", ()))
        if "label" in decided:
            text, had = decided["label"], decided["label"] in labels
            before = {"label": text, "had": had}
            _set(subject, {"labels": _labelled(labels, text, has=decided["had"])}, at.now)
        else:
            columns = {name: value for name, value in decided.items() if name in at.own}
            before = {name: at.own[name] for name in columns}
            _set(subject, columns, at.now)
        id = new_id()
        facts = at.facts if verb is Verb.SNOOZE else {}
        execute(
            "INSERT INTO desk_entry (id, workspace_id, person_id, verb, operation, tool_id, cause, before, after, undoes_id, at) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [id, subject.workspace_id, by.id, verb.value, subject.operation, subject.tool_id, subject.cause,
             _json(before), _json({**decided, **facts}), undoes, at.now],
        )  # fmt: skip
        row = desk_of(subject=subject)
        if row is None:
            raise LookupError(subject)
        return Acted(
            entry_id=id, desk=row, undo_until=at.now + UNDO_OFFERED if may_be_undone(verb=verb.value) else None
        )


def _locked(subject: Subject) -> _At:
    """The desk's row, made where there was none, and locked."""
    if subject.operation is not None:
        execute(
            "INSERT INTO desk (operation, workspace_id, wakes_on, labels, changed_at) "
            "SELECT id, workspace_id, '', '[]', clock_timestamp() FROM operation WHERE id = %(operation)s AND workspace_id = %(workspace)s "
            "ON CONFLICT DO NOTHING",
            named(subject),
        )
        own = execute(
            "SELECT holder_id, held_until, snoozed_until, wakes_on, woken_at, labels::text FROM desk "
            "WHERE operation = %(operation)s AND workspace_id = %(workspace)s FOR UPDATE",
            named(subject),
        )
        facts = "SELECT o.state, o.version, NULL::int, clock_timestamp() FROM operation o WHERE o.id = %(operation)s"
    else:
        execute(
            "INSERT INTO cause_desk (tool_id, cause, workspace_id, wakes_on, changed_at) "
            "SELECT id, %(cause)s, workspace_id, '', clock_timestamp() FROM tool WHERE id = %(tool)s AND workspace_id = %(workspace)s "
            "ON CONFLICT DO NOTHING",
            named(subject),
        )
        own = execute(
            "SELECT holder_id, held_until, snoozed_until, wakes_on FROM cause_desk "
            "WHERE tool_id = %(tool)s AND cause = %(cause)s AND workspace_id = %(workspace)s FOR UPDATE",
            named(subject),
        )
        facts = (
            "SELECT NULL, NULL, (SELECT count(*) FROM (SELECT 1 FROM operation o WHERE o.workspace_id = %(workspace)s "  # noqa: S608
            f"AND o.tool_id = %(tool)s AND o.cause = %(cause)s AND o.state <> 'settled' LIMIT {MOST_COUNTED}) m), clock_timestamp()"
        )
    row = desk_of(subject=subject)
    if not own or row is None:
        raise LookupError(subject)
    state, version, members, now = execute(facts, named(subject))[0]
    return _At(
        subject=subject,
        row=row,
        own=_own(own[0], now),
        settled=state == "settled",
        facts={"members": members} if subject.is_group else {"state": state, "version": version},
        now=now,
    )


def _own(columns: Sequence[Any], now: datetime) -> dict[str, Any]:
    holder_id, held_until, snoozed_until, wakes_on, *more = columns
    held, asleep = held_until is not None and held_until > now, snoozed_until is not None and snoozed_until > now
    own = {
        "holder_id": holder_id if held else None,
        "held_until": held_until if held else None,
        "snoozed_until": snoozed_until if asleep else None,
        "wakes_on": wakes_on if asleep else "",
    }
    return {**own, "woken_at": more[0], "labels": orjson.loads(more[1])} if more else own


def _held_by(person_id: int | None, until: datetime | None) -> dict[str, Any]:
    return {"holder_id": person_id, "held_until": until}


def _given_to(person_id: int | None, by: Signer, now: datetime) -> dict[str, Any]:
    if person_id is None:
        return _held_by(None, None)
    # Somebody else may not be there to look: what is given to them waits for them for a shift.
    return _held_by(person_id, now + (CLAIM_LASTS if person_id == by.id else ASSIGNMENT_LASTS))


def _asleep(until: datetime | None, wakes_on: WakesOn) -> dict[str, Any]:
    return {"snoozed_until": until, "wakes_on": wakes_on.value, "woken_at": None}


def _labelled(labels: list[str], text: str, *, has: bool) -> list[str]:
    others = [one for one in labels if one != text]
    return [*others, text] if has else others


def _set(subject: Subject, columns: dict[str, Any], now: datetime) -> None:
    if not columns:
        return
    assigned = ", ".join(f"{name} = %(set_{name})s" for name in columns)
    table, where = (
        ("desk", "operation = %(operation)s")
        if subject.operation is not None
        else ("cause_desk", "tool_id = %(tool)s AND cause = %(cause)s")
    )
    execute(
        f"UPDATE {table} SET {assigned}, changed_at = %(now)s WHERE {where}",  # noqa: S608 - names are ours
        {**named(subject), "now": now, **{f"set_{name}": _column(name, value) for name, value in columns.items()}},
    )


def _column(name: str, value: Any) -> Any:
    if name == "labels":
        return _json(value)
    return datetime.fromisoformat(value) if isinstance(value, str) and name in _TIMES else value


def _write_note(subject: Subject, by: Signer, text: str, now: datetime) -> UUID:
    names = mentioned(text)
    known = (
        execute(
            "SELECT p.username FROM person p WHERE p.username = ANY(%s::varchar[]) AND p.is_active AND EXISTS "
            "(SELECT 1 FROM membership m WHERE m.person_id = p.id AND m.workspace_id = %s) ORDER BY p.username",
            [list(names), subject.workspace_id],
        )
        if names
        else []
    )
    id = new_id()
    execute(
        "INSERT INTO note (id, workspace_id, operation, tool_id, cause, author_id, text, mentions, at) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [id, subject.workspace_id, subject.operation, subject.tool_id, subject.cause, by.id, text,
         _json([row[0] for row in known]), now],
    )  # fmt: skip
    return id


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
