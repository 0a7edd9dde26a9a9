"""What is measured, against what: ratios of two things run in turn in one run. `manage.py benchmark NAME` prints them.

| file           | what it is                                                                    |
| -------------- | ----------------------------------------------------------------------------- |
| `rounds.py`    | A B A B …: which rounds count, medians, the JSON line                         |
| `stage.py`     | a PostgreSQL of its own, migrated, with a workspace; the web server           |
| `load.py`      | the callers: a process that records and reports operations over HTTP          |
| `captured.py`  | the statements that one operation really sent, as a pgbench script            |
| `intake.py` `footprint.py` `digest.py` `decide.py` `notice.py` `claim.py` | one benchmark each             |
| `settle.py`    | with `settle_faults.py` (2,000 operations, an owner with lag) and `settle_rate.py` (an instant owner) |
| `settle_*.py`  | the owner, the harness, the verdict, what the workers bring along             |
| `programs.py` `brokers.py` | web server, workers, beat; Redis and RabbitMQ: as processes of ours |
| `recovery.py` and `recovery_*.py` | controllers that recover, over made-up operations and lost answers |
"""
