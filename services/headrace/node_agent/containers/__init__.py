"""Workers in containers: what a container engine is asked for, and what it is trusted with.

Rule: the engine may go away and come back at any moment. Nothing is believed of a container that the
engine has not said, and whatever it is asked is asked again until it answers; an attempt has ended
when the engine says that its container is gone.
"""
