"""`claim`: what is due is claimed as fast from a long schedule as from a short one, and while others hold old snapshots.

| line           | ours                                                     | reference                             | target |
| -------------- | -------------------------------------------------------- | ------------------------------------- | ------ |
| claim.rows     | p50 of claiming 100 among `rows` scheduled operations     | the same among 100,000                | ≤ 1.10 |
| claim.snapshot | the last tenth of 2,000 claims while a session holds a snapshot | the first tenth                 | ≤ 1.10 |

The schedule table alone is filled, without its operations (the foreign key is taken off for that, in a database of its
own); the claim is the product's own statement, and joins one operation that all stand for.
"""
