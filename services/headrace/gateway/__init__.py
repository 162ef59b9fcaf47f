"""The gateway: HTTP for people, answered from the log and asked over the bus."""
