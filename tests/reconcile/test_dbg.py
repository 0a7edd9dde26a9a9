import time, sys
from tests.journeys import programs
from recovery.local import broker
from tests.reconcile.crowd import *
from tests.reconcile.test_manners import owner, other
import pytest
@pytest.fixture
def fleet(database, tmp_path):
    broker.install_as_superuser(url=database.superuser_url)
    env = programs.environment(database_url=database.app_url, broker_url=database.broker_url)
    made = programs.workers(env=env, folder=tmp_path, nodes=1, concurrency=2)
    made.start()
    yield made
    print(made.said())
    made.stop()
def run(ids, seconds=60):
    due(ids); began = time.monotonic()
    while time.monotonic()-began < seconds:
        if states(ids)["settled"] == len(ids): break
        time.sleep(0.05)
    print(states(ids), f"{states(ids)['settled']/(time.monotonic()-began):.0f}/s", flush=True)
def hold(ids):
    execute("UPDATE schedule SET next_check_at = now() + interval '1 day', claimed_until = NULL WHERE operation = ANY(%s)", [ids])
N=1200
def test_x(owner, other, fleet):
    owner.seconds, other.seconds = 3.0, 0.005
    for most in (16, 4, 16, 4):
        b1, ids = crowd(other, N); limits(b1, most_at_once=most); hold(ids)
        if True: 
            time.sleep(6)
        print("alone", most); run(ids)
        b2, hang = crowd(owner, N); limits(b2, most_at_once=most); hold(hang)
        b1, ids = crowd(other, N); limits(b1, most_at_once=most); hold(ids)
        due(hang); time.sleep(1.5); owner.begin_again()
        print("beside", most, time.time(), b1.owner_id, b2.owner_id); run(ids); print("hanging asked", len(owner.asked), owner.most_at_once)
        hold(hang); time.sleep(4)
