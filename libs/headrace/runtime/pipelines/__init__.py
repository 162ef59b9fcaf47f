"""What pipelines meet on the bus: the envelopes of their requests, and their projects' outcomes."""
