"""The node agent: keeps one machine as placement wants it, and reports what became of it."""
