"""The ports of a gang's workers, reached by the nodes of the gang and nobody else.

Rule: the whole of what should hold on this node is one ruleset, made from the document of what should
run here and put in force in one step; a worker of a gang starts when its part of it is in force. Where
the host does not allow that, workers start all the same, and the record does not claim it.
"""

RECORDED = "+peers"  # behind the level in the record of a worker whose ports are fenced
