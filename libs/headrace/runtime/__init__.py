"""The one shell around every decider: the loop of turns, doors, leadership, relay and health."""
