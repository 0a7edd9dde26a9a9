"""What `make up` needs on one machine: an embedded PostgreSQL, its roles, the broker's schema, and the processes.

Nothing here is used in production, where PostgreSQL and the processes are somebody else's to run.
"""
