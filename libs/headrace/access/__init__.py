"""Who may do what: roles, scopes, tokens, and the one function that says yes or no.

Rule: pure, and denied unless the table says otherwise. `table` is what a role may do, `allowed` is
the judgement, `directory` is who has which role, folded from the log.
"""
