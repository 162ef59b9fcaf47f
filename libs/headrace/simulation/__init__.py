"""The platform in one process on virtual time, with everything going wrong that may.

Rule: a seed is a history. The deciders, shells, runtime and node agents are the real ones; clocks,
chance, the log, the bus and the machines are twins that a seed decides on.
"""
