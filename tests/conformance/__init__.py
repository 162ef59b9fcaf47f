"""The scheduling core against scenarios of KAI-Scheduler, given as JSON."""
