"""The launcher and the shims: what starts workers and outlives the agent.

Rule: standard library only, and as little of it as possible: every running attempt carries this.
"""
