"""What does an observation mean, and what is the one next step?

| step                    | file             | from → to                                              |
| ----------------------- | ---------------- | ------------------------------------------------------ |
| read                    | `read.py`        | a raw observation → a `Reading` of that attempt alone  |
| what a signal means     | `documented.py`  | status, code, SQLSTATE, SMTP reply → a `Meaning`       |
| what an answer says     | `error_bodies.py`| the error shapes of many owners → one `ErrorBody`      |
| how long to wait        | `waits.py`       | headers and body → milliseconds                        |
| decide                  | `decide.py`      | reading, facts, contract → one `Decision`              |
| tell                    | `dialects.py`    | a decision → what a harness or an agent reads          |
| all at once, no ledger  | `stateless.py`   | contract, history, observation → a `Judgement`         |

Everything here is pure: no clock, no database, no network. A new kind of observation is one more file in `readers/`.
"""
