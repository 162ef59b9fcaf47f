"""The nodes of the agent's own tests, for faults that need no second machine."""

from tests.node_agent.conftest import node, tmp_path

__all__ = ["node", "tmp_path"]
