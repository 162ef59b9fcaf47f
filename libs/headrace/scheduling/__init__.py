"""The scheduling core: what quota and placement decide with.

Rule: pure functions over plain Structs, integers only; every ranking ends in a unique key, so that
the same state gives the same answer everywhere.
"""
