"""Every worker is killed in the middle of a job in bulk: the next ones go on, and do nothing twice."""

from datetime import timedelta
from uuid import uuid4

from ledger.database import execute
from ledger.queries.bulk import Job, job_of, preview_of
from ledger.rules.bulk import Verb
from ledger.transitions import bulk
from ledger.transitions.bulk import Order
from ledger.transitions.person import Signer
from recovery.web.scenes import opened, set_stage
from tests.journeys.programs import Workers, until
from tests.journeys.running import CLAIM_SECONDS

MEMBERS = 30


def test_a_job_goes_on_where_killed_workers_were(workers: Workers, settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    mark = uuid4().hex[:8]
    stage = set_stage(slug=f"k-{mark}", name="Acme Support", password="x" * 12, suffix=f".{mark}")
    ids = [
        opened(
            stage=stage, tool="rooms.book", operation_id=f"room:{number}", payload={}, ago=timedelta(minutes=1),
            permit=False,
        )
        for number in range(MEMBERS)
    ]  # fmt: skip
    olive = Signer(id=stage.people["olive"], username=f"olive.{mark}")
    id = bulk.freeze_ids(workspace_id=stage.workspace_id, by=olive, ids=ids)

    def job() -> Job:
        found = job_of(workspace_id=stage.workspace_id, id=id)
        assert found is not None
        return found

    preview = preview_of(job=job(), verb=Verb.NOTE, me=olive.id)
    order = Order(verb=Verb.NOTE, options={"text": "Seen in bulk."}, first=None, per_second=8)
    assert bulk.begin(job=job(), workspace_id=stage.workspace_id, by=olive, order=order, digest=preview.digest)
    until(lambda: job().done >= 3, seconds=30, what=lambda: f"nothing is done\n{workers.said()}")
    for node in workers.nodes:
        node.kill()
    stood = job()
    assert stood.state == "running"
    assert 3 <= stood.done < MEMBERS, "killed in the middle"
    workers.start()
    until(lambda: job().state == "finished", seconds=CLAIM_SECONDS + 40, what=lambda: f"{job()}\n{workers.said()}")
    assert (job().done, job().skipped, job().failed) == (MEMBERS, 0, 0)
    notes = execute(
        "SELECT operation, count(*) FROM note WHERE workspace_id = %s GROUP BY operation", [stage.workspace_id]
    )
    assert sorted(notes) == sorted((id, 1) for id in ids), "each has one note"
