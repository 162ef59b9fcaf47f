"""What the scheduling core's turns cost on large clusters."""
