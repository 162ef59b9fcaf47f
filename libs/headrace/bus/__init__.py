"""The bus: one interface, NATS and an in-memory twin, and every subject in one place."""
