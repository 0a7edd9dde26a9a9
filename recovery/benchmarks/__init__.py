"""What is measured, against what: ratios of two things run in turn in one run. `manage.py benchmark NAME` prints them.

| file           | what it is                                                                    |
| -------------- | ----------------------------------------------------------------------------- |
| `rounds.py`    | A B A B …: which rounds count, medians, the JSON line                         |
| `stage.py`     | a PostgreSQL of its own, migrated, with a workspace; the web server           |
| `load.py`      | the callers: a process that records and reports operations over HTTP          |
| `captured.py`  | the statements that one operation really sent, as a pgbench script            |
| `intake.py` `footprint.py` `digest.py` `decide.py` `notice.py` | one benchmark each                        |
| `recovery.py` and `recovery_*.py` | controllers that recover, over made-up operations and lost answers |
"""
