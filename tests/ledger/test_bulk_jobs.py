"""Jobs in bulk: frozen, refused when the set has moved, begun once, done member by member, stopped, taken back."""

import time
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from ledger.database import execute
from ledger.queries.bulk import job_of, members_of, preview_of, results_of, waiting_for_another
from ledger.queries.clock import database_now
from ledger.queries.desk import desk_of
from ledger.queries.facts import held
from ledger.queries.filters import parse_filter
from ledger.rules.bulk import CHANGED, MOST, PREVIEW_LASTS, Result, Verb
from ledger.rules.desk import Subject
from ledger.rules.resolutions import Answer
from ledger.rules.vocabulary import Action, LookupOutcome
from ledger.transitions import bulk, desk
from ledger.transitions.bulk import NotBegun, Order
from ledger.transitions.person import Signer
from recovery.bulk import SO_ALREADY, run
from recovery.web.scenes import Stage, answered, looked, opened, reported, set_stage
from recovery.web.scenes import decided as decide

OPEN = "is:unresolved tool:payments.capture"


@pytest.fixture
def stage(database, django_db_blocker, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with django_db_blocker.unblock():
        yield _fresh()


def _fresh() -> Stage:
    mark = uuid4().hex[:8]
    return set_stage(slug=f"b-{mark}", name="Acme Support", password="x" * 12, suffix=f".{mark}")


def _by(stage, username) -> Signer:
    return Signer(id=stage.people[username], username=f"{username}{stage.suffix}")


def _waiting(stage, number) -> UUID:
    """A payment that was recorded and not sent: its whole history is one row."""
    intent = {"order": f"o-{number}"}
    return opened(
        stage=stage, tool="payments.capture", operation_id=f"capture:{number}", payload=intent, ago=timedelta(minutes=9),
        permit=False,
    )  # fmt: skip


def _unknown(stage, number, *, looked_ago=None) -> UUID:
    """A payment of which nobody knows; with `looked_ago`, its owner has just been asked and had nothing."""
    id = opened(
        stage=stage, tool="payments.capture", operation_id=f"capture:{number}", payload={"order": f"o-{number}"},
        ago=timedelta(minutes=9),
    )  # fmt: skip
    told = decide(Action.RECONCILE, "TRANSPORT_TIMEOUT", "No answer came.", after=timedelta(seconds=60))
    reported(id=id, after=timedelta(seconds=31), decision=told)
    if looked_ago is not None:
        looked(id=id, ago=looked_ago, outcome=LookupOutcome.NO_MATCH, decision=told)
    return id


def _booking(stage, number) -> UUID:
    return opened(
        stage=stage,
        tool="rooms.book",
        operation_id=f"room:{number}",
        payload={},
        ago=timedelta(minutes=1),
        permit=False,
    )


def _frozen(stage, ids, who="olive"):
    id = bulk.freeze_ids(workspace_id=stage.workspace_id, by=_by(stage, who), ids=ids)
    assert isinstance(id, UUID), id
    return _job(stage, id)


def _job(stage, id):
    return job_of(workspace_id=stage.workspace_id, id=id)


def _begin(stage, job, verb, who="olive", *, first=None, per_second=10_000.0, digest=None, reason="seen", **options):
    digest = digest or preview_of(job=job, verb=verb, me=stage.people[who]).digest
    order = Order(verb=verb, reason=reason, options=options, first=first, per_second=per_second)
    return bulk.begin(job=job, workspace_id=stage.workspace_id, by=_by(stage, who), order=order, digest=digest)


def _done(stage, job):
    while run(job_id=job.id):
        pass
    return _job(stage, job.id)


def _results(stage, job):
    return {member.operation_id: (member.result, member.because) for member in members_of(job_id=job.id, most=1000)}


def test_a_filter_is_frozen_with_the_versions_that_were_previewed(stage):
    ids = [_unknown(stage, number) for number in range(3)]
    _booking(stage, "other")
    id = bulk.freeze_filter(
        workspace_id=stage.workspace_id, by=_by(stage, "olive"), filter=parse_filter(OPEN), query=OPEN
    )
    job = _job(stage, id)
    assert (job.total, job.state, job.query, job.verb) == (3, "waiting", OPEN, None)
    assert {member.id for member in members_of(job_id=id)} == set(ids)
    sealed = execute(
        "SELECT set_digest = sha256(convert_to((SELECT string_agg(number || ' ' || operation || ' ' || version_seen, "
        "E'\\n' ORDER BY number) FROM bulk_member WHERE job_id = bulk_job.id), 'UTF8')) FROM bulk_job WHERE id = %s",
        [id],
    )
    assert sealed == [(True,)]
    _unknown(stage, "later")
    assert _job(stage, id).total == 3, "who comes later is not in it"


def test_what_cannot_be_frozen_says_why(stage, monkeypatch):
    by = _by(stage, "olive")
    empty = bulk.freeze_filter(workspace_id=stage.workspace_id, by=by, filter=parse_filter(""), query="")
    assert empty == "Write a filter first: an empty one never means everything."
    gone = bulk.freeze_ids(workspace_id=stage.workspace_id, by=by, ids=[uuid4()])
    assert gone == "Nothing to act on: none of these is here any more."
    monkeypatch.setattr("ledger.transitions.bulk.MOST", 2)
    ids = [_booking(stage, number) for number in range(3)]
    assert bulk.freeze_ids(workspace_id=stage.workspace_id, by=by, ids=ids).startswith("More than")
    assert execute("SELECT count(*) FROM bulk_job WHERE workspace_id = %s", [stage.workspace_id]) == [(0,)]


def test_nothing_of_another_workspace_is_frozen_or_found(stage):
    theirs = _fresh()
    id = _booking(theirs, "theirs")
    assert isinstance(bulk.freeze_ids(workspace_id=stage.workspace_id, by=_by(stage, "olive"), ids=[id]), str)
    job = _frozen(theirs, [id])
    assert job_of(workspace_id=stage.workspace_id, id=job.id) is None


def test_a_bulk_of_claims_is_done_and_told_one_by_one(stage):
    ids = [_booking(stage, number) for number in range(4)]
    desk.claim(subject=Subject(workspace_id=stage.workspace_id, operation=ids[0]), by=_by(stage, "otto"))
    job = _frozen(stage, ids)
    preview = preview_of(job=job, verb=Verb.CLAIM, me=stage.people["olive"])
    assert len(preview.eligible) == 3
    assert preview.reasons == (("Otto Lindqvist holds it already.", 1),)
    assert _begin(stage, job, Verb.CLAIM).digest == preview.digest
    job = _done(stage, job)
    assert (job.state, job.done, job.skipped, job.failed) == ("finished", 3, 1, 0)
    assert _results(stage, job)["room:0"] == (Result.SKIPPED, "Otto Lindqvist holds it already.")
    assert (
        desk_of(subject=Subject(workspace_id=stage.workspace_id, operation=ids[1])).holder_id == stage.people["olive"]
    )
    entries = execute(
        "SELECT verb, count(*) FROM desk_entry WHERE workspace_id = %s AND person_id = %s GROUP BY verb",
        [stage.workspace_id, stage.people["olive"]],
    )
    assert dict(entries) == {"bulk": 1, "claim": 3}


def test_a_set_that_moved_is_frozen_anew_and_never_acted_on(stage):
    ids = [_booking(stage, number) for number in range(3)]
    job = _frozen(stage, ids)
    digest = preview_of(job=job, verb=Verb.CLAIM, me=stage.people["olive"]).digest
    desk.claim(subject=Subject(workspace_id=stage.workspace_id, operation=ids[0]), by=_by(stage, "otto"))
    came = _begin(stage, job, Verb.CLAIM, digest=digest)
    assert isinstance(came, NotBegun)
    assert came.frozen_anew
    assert came.sentence == "Nothing was done: some of these have changed since the preview."
    assert _job(stage, job.id).state == "waiting"
    assert execute("SELECT count(*) FROM desk_entry WHERE person_id = %s", [stage.people["olive"]]) == [(0,)]


@pytest.mark.parametrize("other", [Verb.RELEASE, Verb.ASSIGN])
def test_a_digest_is_of_one_verb(stage, other):
    job = _frozen(stage, [_booking(stage, 1)])
    digest = preview_of(job=job, verb=other, me=stage.people["olive"]).digest
    assert isinstance(_begin(stage, job, Verb.CLAIM, digest=digest), NotBegun)


def test_an_old_preview_is_frozen_anew(stage):
    job = _frozen(stage, [_booking(stage, 1)])
    digest = preview_of(job=job, verb=Verb.CLAIM, me=stage.people["olive"]).digest
    execute("UPDATE bulk_job SET created_at = created_at - %s WHERE id = %s", [PREVIEW_LASTS, job.id])
    came = _begin(stage, job, Verb.CLAIM, digest=digest)
    assert isinstance(came, NotBegun)
    assert "older than 15 minutes" in came.sentence
    assert not isinstance(_begin(stage, _job(stage, job.id), Verb.CLAIM, digest=digest), NotBegun)


def test_a_form_that_is_sent_twice_makes_one_job(stage):
    job = _frozen(stage, [_booking(stage, 1)])
    digest = preview_of(job=job, verb=Verb.CLAIM, me=stage.people["olive"]).digest
    assert _begin(stage, job, Verb.CLAIM, digest=digest) is not None
    assert _begin(stage, job, Verb.CLAIM, digest=digest) is None
    _done(stage, job)
    assert _begin(stage, job, Verb.CLAIM, digest=digest) is None
    assert execute(
        "SELECT count(*) FROM desk_entry WHERE verb = 'bulk' AND workspace_id = %s", [stage.workspace_id]
    ) == [(1,)]


def test_answers_name_the_version_that_was_seen(stage):
    ids = [_unknown(stage, number) for number in range(3)]
    job = _frozen(stage, ids)
    told = decide(Action.RECONCILE, "OWNER_UNAVAILABLE", "No answer.", after=timedelta(seconds=60))
    looked(id=ids[0], ago=timedelta(seconds=1), outcome=LookupOutcome.LOOKUP_FAILED, decision=told)
    preview = preview_of(job=job, verb=Verb.APPLIED, me=stage.people["olive"])
    assert preview.moved == 1
    assert _begin(stage, job, Verb.APPLIED, digest=preview.digest) is not None
    answered(stage=stage, id=ids[1], username="otto", answer=Answer.CANNOT_TELL, reason="looked")
    job = _done(stage, job)
    assert (job.done, job.skipped) == (1, 2)
    assert [held(id=id).facts.outcome for id in ids] == [None, None, "applied"]
    assert results_of(job_id=job.id) == ((Result.SKIPPED, CHANGED, 2), (Result.DONE, "", 1))
    again = _job(stage, bulk.freeze_left_over(job=job, workspace_id=stage.workspace_id, by=_by(stage, "olive")))
    assert {member.id for member in members_of(job_id=again.id)} == set(ids[:2])


def test_it_did_not_happen_needs_two_people_and_a_fresh_look_at_each(stage):
    fresh = [_unknown(stage, number, looked_ago=timedelta(seconds=2)) for number in range(2)]
    stale = _unknown(stage, "stale", looked_ago=timedelta(seconds=45))
    never = _unknown(stage, "never")
    job = _frozen(stage, [*fresh, stale, never])
    preview = preview_of(job=job, verb=Verb.NOT_APPLIED, me=stage.people["olive"])
    assert {member.id for member in preview.eligible} == set(fresh)
    assert {why.split(".")[0] for why, _ in preview.reasons} == {
        "Its owner was last asked longer ago than the contract's lag of 30 s",
        "Its owner has never been asked to the end",
    }
    assert _begin(stage, job, Verb.NOT_APPLIED) is not None
    job = _done(stage, job)
    assert (job.done, job.skipped) == (2, 2)
    assert [held(id=id).facts.state for id in fresh] == ["reconciling", "reconciling"], "one signature settles nothing"
    assert waiting_for_another(job_id=job.id) == 2
    own = preview_of(job=_frozen(stage, fresh), verb=Verb.NOT_APPLIED, me=stage.people["olive"])
    assert own.reasons == (("You gave this answer already. Another person has to sign it.", 2),)
    second = _job(stage, bulk.freeze_unsigned(job=job, workspace_id=stage.workspace_id, by=_by(stage, "otto")))
    assert (second.total, second.options["verb"]) == (2, "not_applied")
    assert _begin(stage, second, Verb.NOT_APPLIED, "otto") is not None
    assert _done(stage, second).done == 2
    assert [held(id=id).facts.outcome for id in fresh] == ["not_applied", "not_applied"]


def test_the_first_are_done_and_then_somebody_goes_on(stage):
    job = _frozen(stage, [_booking(stage, number) for number in range(5)])
    _begin(stage, job, Verb.CLAIM, first=2)
    job = _done(stage, job)
    assert (job.state, job.done, job.left) == ("stopped", 2, 3)
    assert bulk.go_on(job_id=job.id)
    job = _done(stage, job)
    assert (job.state, job.done) == ("finished", 5)


def test_a_stopped_job_does_no_other_member_until_somebody_goes_on(stage):
    job = _frozen(stage, [_booking(stage, number) for number in range(6)])
    _begin(stage, job, Verb.LABEL, per_second=4.0, label="seen")
    run(job_id=job.id, seconds=0.4)
    assert bulk.stop(job_id=job.id)
    halfway = _job(stage, job.id)
    assert 0 < halfway.done < 6
    assert run(job_id=job.id) is False
    assert _job(stage, job.id).done == halfway.done
    assert not bulk.stop(job_id=job.id)
    assert bulk.go_on(job_id=job.id)
    execute("UPDATE bulk_job SET per_second = 10000 WHERE id = %s", [job.id])
    assert _done(stage, job).done == 6


def test_a_job_keeps_its_rate(stage):
    job = _frozen(stage, [_booking(stage, number) for number in range(6)])
    _begin(stage, job, Verb.CLAIM, per_second=10.0)
    began = time.monotonic()
    assert _done(stage, job).done == 6
    assert time.monotonic() - began >= 0.45


def test_one_worker_at_a_time_has_a_job_in_hand(stage):
    job = _frozen(stage, [_booking(stage, 1)])
    _begin(stage, job, Verb.CLAIM)
    assert job.id in bulk.unattended()
    assert bulk.take(job_id=job.id) is not None
    assert bulk.take(job_id=job.id) is None
    assert job.id not in bulk.unattended()
    assert run(job_id=job.id) is False
    execute("UPDATE bulk_job SET claimed_until = now() WHERE id = %s", [job.id])
    assert job.id in bulk.unattended(), "the hold of a worker that died lapses"
    assert _done(stage, job).done == 1


@pytest.mark.parametrize(
    ("verb", "options", "after"),
    [
        (Verb.CLAIM, {}, lambda row, stage: row.holder_id == stage.people["olive"]),
        (Verb.ASSIGN, {"person": "otto"}, lambda row, stage: row.holder_id == stage.people["otto"]),
        (
            Verb.HAND_OVER,
            {"person": "otto", "text": "See the log."},
            lambda row, stage: row.holder_id == stage.people["otto"],
        ),
        (
            Verb.SNOOZE,
            {"until": timedelta(hours=2), "wakes_on": "evidence"},
            lambda row, _: row.snoozed_until is not None,
        ),
        (Verb.LABEL, {"label": "known"}, lambda row, _: row.labels == ("known",)),
    ],
)
def test_a_whole_job_is_taken_back(stage, verb, options, after):
    if "person" in options:
        options = options | {"person": stage.people[options["person"]]}
    if "until" in options:
        options = options | {"until": (database_now() + options["until"]).isoformat()}
    ids = [_booking(stage, number) for number in range(3)]
    subjects = [Subject(workspace_id=stage.workspace_id, operation=id) for id in ids]
    before = [desk_of(subject=subject) for subject in subjects]
    job = _frozen(stage, ids)
    _begin(stage, job, verb, **options)
    job = _done(stage, job)
    assert all(after(desk_of(subject=subject), stage) for subject in subjects)
    undo = bulk.undo(job=job, workspace_id=stage.workspace_id, by=_by(stage, "olive"))
    assert undo == bulk.undo(job=job, workspace_id=stage.workspace_id, by=_by(stage, "olive")), (
        "once, however often asked"
    )
    assert isinstance(bulk.undo(job=job, workspace_id=stage.workspace_id, by=_by(stage, "otto")), str)
    undone = _done(stage, _job(stage, undo))
    assert (undone.verb, undone.state, undone.done) == (Verb.UNDO, "finished", 3)
    assert [desk_of(subject=subject) for subject in subjects] == before


def test_an_undo_leaves_alone_what_somebody_changed_since(stage):
    ids = [_booking(stage, number) for number in range(2)]
    job = _frozen(stage, ids)
    _begin(stage, job, Verb.CLAIM)
    job = _done(stage, job)
    subject = Subject(workspace_id=stage.workspace_id, operation=ids[0])
    desk.assign(subject=subject, by=_by(stage, "otto"), person_id=stage.people["otto"])
    undone = _done(stage, _job(stage, bulk.undo(job=job, workspace_id=stage.workspace_id, by=_by(stage, "olive"))))
    assert (undone.done, undone.skipped) == (1, 1)
    assert desk_of(subject=subject).holder_id == stage.people["otto"]


def test_what_was_so_already_is_not_undone(stage):
    ids = [_booking(stage, number) for number in range(2)]
    desk.label(subject=Subject(workspace_id=stage.workspace_id, operation=ids[0]), by=_by(stage, "olive"), text="known")
    job = _frozen(stage, ids)
    _begin(stage, job, Verb.LABEL, label="known")
    job = _done(stage, job)
    assert _results(stage, job)["room:0"] == (Result.DONE, SO_ALREADY)
    undone = _done(stage, _job(stage, bulk.undo(job=job, workspace_id=stage.workspace_id, by=_by(stage, "olive"))))
    assert (undone.done, undone.skipped) == (1, 1)
    assert desk_of(subject=Subject(workspace_id=stage.workspace_id, operation=ids[0])).labels == ("known",)


def test_one_member_that_breaks_fails_alone(stage, monkeypatch):
    ids = [_booking(stage, number) for number in range(3)]
    job = _frozen(stage, ids)
    _begin(stage, job, Verb.CLAIM)
    single = desk.claim

    def breaks(*, subject, by):
        came = single(subject=subject, by=by)
        if subject.operation == ids[1]:
            raise RuntimeError("a bug")
        return came

    monkeypatch.setattr("recovery.bulk.desk.claim", breaks)
    job = _done(stage, job)
    assert (job.state, job.done, job.failed) == ("finished", 2, 1)
    assert _results(stage, job)["room:1"][0] is Result.FAILED
    assert desk_of(subject=Subject(workspace_id=stage.workspace_id, operation=ids[1])).holder_id is None, (
        "all or nothing"
    )


def test_the_owner_is_asked_again_where_somebody_asks(stage):
    ids = [_unknown(stage, 1), _booking(stage, 2)]
    job = _frozen(stage, ids)
    preview = preview_of(job=job, verb=Verb.LOOK_AGAIN, me=stage.people["olive"])
    assert preview.reasons == (("Nobody asks its owner in this state.", 1),)
    _begin(stage, job, Verb.LOOK_AGAIN)
    assert _done(stage, job).done == 1
    assert held(id=ids[0]).next_check_at <= database_now()


def test_previews_that_nobody_confirmed_end(stage):
    job = _frozen(stage, [_booking(stage, 1)])
    execute("UPDATE bulk_job SET created_at = created_at - %s WHERE id = %s", [PREVIEW_LASTS * 5, job.id])
    bulk.unattended()
    assert _job(stage, job.id).state == "stopped"
    assert not bulk.go_on(job_id=job.id), "it was never begun"


def test_ten_thousand_are_frozen_previewed_and_begun(stage, capsys):
    _copied(_waiting(stage, "one"), count=MOST - 1)
    took = {}

    def timed(name, call):
        began = time.perf_counter()
        came = call()
        took[name] = time.perf_counter() - began
        return came

    by, wanted = _by(stage, "olive"), parse_filter(OPEN)
    id = timed("freeze", lambda: bulk.freeze_filter(workspace_id=stage.workspace_id, by=by, filter=wanted, query=OPEN))
    job = _job(stage, id)
    assert job.total == MOST
    for verb in (Verb.CLAIM, Verb.APPLIED, Verb.WRITTEN_OFF):
        preview = timed(f"preview {verb}", lambda verb=verb: preview_of(job=job, verb=verb, me=by.id))
        assert len(preview.members) == MOST
    assert timed("begin", lambda: _begin(stage, job, Verb.LABEL, label="known")) is not None
    timed("one second of work", lambda: run(job_id=id))
    timed("results", lambda: (results_of(job_id=id), members_of(job_id=id, after=9_000)))
    took["members a second"] = _job(stage, id).done
    bulk.stop(job_id=id)
    with capsys.disabled():
        print("\n10,000 members:", ", ".join(f"{name} {value:.2f}" for name, value in took.items()))


def _copied(id, *, count):
    """Copies of an operation, with the row of history and the payload that the laws ask for."""
    names = [
        row[0]
        for row in execute("SELECT column_name::text FROM information_schema.columns WHERE table_name = 'operation'")
    ]
    other = {"id": "c.id", "operation_id": "o.operation_id || '-' || c.n", "version": "1", "holds_identity": "false"}
    chosen = ", ".join(other.get(name, f"o.{name}") for name in names)
    copies = "unnest(%(ids)s::uuid[]) WITH ORDINALITY AS c(id, n)"
    bound = {"ids": [uuid4() for _ in range(count)], "of": id}
    with transaction.atomic():
        execute(
            f"INSERT INTO operation ({', '.join(names)}) SELECT {chosen} FROM operation o, {copies} WHERE o.id = %(of)s",
            bound,
        )
        execute(
            "INSERT INTO revision (operation, number, digest, original, kind, reason, created_at) "
            f"SELECT c.id, r.number, r.digest, r.original, r.kind, '', r.created_at FROM revision r, {copies} WHERE r.operation = %(of)s",
            bound,
        )
        execute(
            "INSERT INTO journal (operation, seq, at, verb, actor, entry) "
            "SELECT c.id, j.seq, j.at, j.verb, j.actor, replace(replace(j.entry, '\"holds_identity\":true', "
            '\'"holds_identity":false\'), \'"operation_id":"capture:one"\', \'"operation_id":"capture:one-\' || c.n || \'"\') '
            f"FROM journal j, {copies} WHERE j.operation = %(of)s AND j.seq = 1",
            bound,
        )
