"""Submit one job file from a pipeline: `publisher.py URL NAME.creds PROJECT KEY JOB.json`.

The twin of README's `nats req` line. No answer? Run it again with the same key: it is one job.
"""

import asyncio
import sys
from pathlib import Path

import nats


async def submit(url: str, creds: str, project: str, key: str, body: bytes) -> bytes:
    name = Path(creds).stem
    inbox = f"_INBOX_pub_{project}_{name}"  # where this publisher alone may listen
    bus = await nats.connect(url, user_credentials=creds, inbox_prefix=inbox)
    headers = {"ce-id": key, "ce-type": "headrace.job.submit.v1"}
    headers |= {"ce-source": "/etl", "ce-specversion": "1.0"}
    subject = f"headrace.request.{project}.{name}.job.submit"  # and alone may send
    answer = await bus.request(subject, body, timeout=15, headers=headers)
    await bus.close()
    return answer.data


url, creds, project, key, job = sys.argv[1:]
body = Path(job).read_bytes().rstrip(b"\n")
print(asyncio.run(submit(url, creds, project, key, body)).decode())
