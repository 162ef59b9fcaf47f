"""Where workers work: folders that travelled with their jobs, made ready before they start.

Rule: whoever starts gets a folder of its own and can spoil nobody else's. What is fetched is kept by
its hash, within a cap; a job that cannot get its folder ends with the one line that says why.
"""


class Unprepared(Exception):
    """The workplace cannot be had; the line says why."""
