"""Hear everything that happened to a project's jobs, once: `two_days_away.py URL NAME.creds PROJECT BOOK`.

For a publisher that was made with `headrace publisher create NAME --durable`. The platform keeps its
place among the outcomes while this program does not run, for as long as outcomes are kept (7 days) and
its login is good (30 days, `headrace publisher renew`). An outcome comes again until it was taken; BOOK
is a SQLite file in which what was done about each stands together with its id, so that each is done once.
`--last JOB` ends it when that job has ended.
"""

import argparse
import asyncio
import json
import sqlite3

from headrace.client.publisher import Publisher


def done_now(book: sqlite3.Connection, event: dict) -> bool:
    """Note the event, and what is done about it, in one transaction; False when it was done before."""
    with book:
        new = book.execute("INSERT OR IGNORE INTO done VALUES (?)", (event["id"],)).rowcount
        if new:  # here goes what your pipeline does about it, into the same database
            pass
    return bool(new)


async def hear(url: str, creds: str, project: str, path: str, last: str) -> None:
    book = sqlite3.connect(path)
    book.execute("CREATE TABLE IF NOT EXISTS done (id TEXT PRIMARY KEY)")
    async with Publisher(url, creds, project) as publisher:
        async for event in publisher.kept_outcomes():
            said = event["data"]
            if done_now(book, event):
                print(json.dumps(said), flush=True)
            if said["type"] == "job.finished.v1" and said["job"] == last:
                return


parser = argparse.ArgumentParser(description=__doc__)
for name in ("url", "creds", "project", "book"):
    parser.add_argument(name)
parser.add_argument("--last", default="")
told = parser.parse_args()
asyncio.run(hear(told.url, told.creds, told.project, told.book, told.last))
