"""Proofs over the log: the chain, the invariants, and every decision derived again.

Rule: nothing here trusts what it checks. It reads the log from its first position, keeps its own
books, and takes the deciders as an argument.
"""

from headrace.verification.chain import Chain, Noted
from headrace.verification.invariants import Checker
from headrace.verification.journal import check_journal
from headrace.verification.replay import Replay
from headrace.verification.report import Report
from headrace.verification.requests import check_accepted
from headrace.verification.verify import verify
from headrace.verification.violation import Violation

__all__ = [
    "Chain",
    "Checker",
    "Noted",
    "Replay",
    "Report",
    "Violation",
    "check_accepted",
    "check_journal",
    "verify",
]
