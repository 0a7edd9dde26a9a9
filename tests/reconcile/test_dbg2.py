import time, uuid, psycopg, statistics
from datetime import timedelta
from tests.reconcile.crowd import *
from ledger.transitions.schedule import claim_due
OLD = ("WITH due AS (SELECT operation FROM schedule WHERE next_check_at <= now() "
        "AND (claimed_until IS NULL OR claimed_until <= now()) ORDER BY next_check_at LIMIT %(most)s FOR UPDATE SKIP LOCKED) "
        "UPDATE schedule SET claimed_until = now() + %(claim)s FROM due WHERE schedule.operation = due.operation "
        "RETURNING schedule.operation")
def test_x(database):
    owner = CountingOwner()
    bench, ids = crowd(owner, 1)
    N=300_000
    cols=[r[0] for r in execute("select column_name from information_schema.columns where table_name='operation' order by ordinal_position")]
    sel=",".join("gen_random_uuid()" if c=="id" else ("'g-'||n" if c=="operation_id" else ("false" if c=="holds_identity" else ("true" if c=="distinct_intent" else ("NULL" if c=="identity_digest" else 'o.'+c)))) for c in cols)
    with psycopg.connect(database.superuser_url, autocommit=True) as su:
        su.execute("SET session_replication_role = replica")
        su.execute(f"INSERT INTO operation ({','.join(cols)}) SELECT {sel} FROM operation o, generate_series(1,{N}) n WHERE o.id=%s", [ids[0]])
        su.execute("INSERT INTO schedule (operation, next_check_at) SELECT id, now() - random()*interval '1 hour' FROM operation ON CONFLICT DO NOTHING")
        su.execute("VACUUM ANALYZE operation"); su.execute("VACUUM ANALYZE schedule")
    def run(f, k=300):
        t=[]
        for _ in range(k):
            a=time.perf_counter(); f(); t.append((time.perf_counter()-a)*1000)
        d=k//10
        return f"p50 {statistics.median(t):.1f} first {statistics.median(t[:d]):.1f} last {statistics.median(t[-d:]):.1f}"
    print("old", run(lambda: execute(OLD, {"most":100,"claim":timedelta(seconds=600)})), flush=True)
    print("new", run(lambda: claim_due(most=100, claim=timedelta(seconds=600))), flush=True)
    print("new400", run(lambda: claim_due(most=400, claim=timedelta(seconds=600)), 100), flush=True)
    held = psycopg.connect(database.superuser_url); held.execute("set transaction isolation level repeatable read"); held.execute("select count(*) from schedule")
    def settle(due):
        execute("UPDATE schedule SET next_check_at = now() + interval '1 hour', claimed_until = NULL WHERE operation = ANY(%s)", [due])
    print("new held+settle", run(lambda: settle(claim_due(most=100, claim=timedelta(seconds=600))), 800), flush=True)
