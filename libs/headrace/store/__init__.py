"""The event log and the vault beside it: one interface, Postgres and an in-memory twin."""
