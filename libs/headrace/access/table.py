"""What each role may do. This is the one place.

Rule: what is not in the table nobody may do. A cell says how far a permission reaches:

  yes   in the scope in which the role was given, and in all below it
  own   there, but only what one made oneself
  any   wherever the role was given: what belongs to no project and tells nothing of one
  mine  as any, but only what one made oneself
  -     not at all

A role is given in the whole fleet, in a department, or in a project. Who may apply a document may
delete it; `document` is any kind of them, and each kind has a row of its own besides.
"""

from __future__ import annotations

TABLE = """
noun        verb    admin  department-admin  project-admin  researcher  viewer  publisher
job         read    yes    yes               yes            yes         yes     yes
job         submit  yes    yes               yes            yes         -       yes
job         cancel  yes    yes               yes            own         -       yes
job         pause   yes    yes               yes            own         -       yes
job         resume  yes    yes               yes            own         -       yes
job         enter   yes    yes               yes            own         -       -
logs        read    yes    yes               yes            yes         yes     -
event       read    yes    yes               yes            yes         yes     yes
project     read    yes    yes               yes            yes         yes     yes
project     apply   yes    yes               -              -           -       -
project     erase   yes    yes               yes            -           -       -
document    apply   yes    yes               yes            -           -       -
template    read    yes    yes               yes            yes         yes     yes
template    apply   yes    yes               yes            -           -       -
department  read    yes    yes               yes            yes         yes     -
department  apply   yes    -                 -              -           -       -
usage       read    yes    yes               yes            yes         yes     -
secret      list    yes    yes               yes            yes         -       -
secret      set     yes    yes               yes            yes         -       -
publisher   read    yes    yes               yes            -           -       -
publisher   create  yes    yes               yes            -           -       -
webhook     read    yes    yes               yes            -           -       -
webhook     apply   yes    yes               yes            -           -       -
webhook     private yes    -                 -              -           -       -
role        read    yes    yes               yes            -           -       -
role        grant   yes    yes               yes            -           -       -
user        read    yes    any               any            -           -       -
user        set     yes    -                 -              -           -       -
service     read    yes    yes               yes            -           -       -
service     set     yes    yes               yes            -           -       -
token       read    yes    mine              mine           mine        mine    -
token       create  yes    mine              mine           mine        mine    -
token       revoke  yes    mine              mine           mine        mine    -
node        read    any    any               any            any         any     -
node        change  yes    -                 -              -           -       -
node        join    yes    -                 -              -           -       -
pool        read    any    any               any            any         any     -
pool        apply   yes    -                 -              -           -       -
volume      read    any    any               any            any         any     -
platform    rebuild yes    -                 -              -           -       -
platform    read    any    any               any            any         any     -
"""

REACHES = ("yes", "own", "any", "mine")
NONE = "-"


def _read(table: str) -> dict[tuple[str, str], dict[str, str]]:
    head, *rows = (line.split() for line in table.strip().splitlines())
    return {
        (noun, verb): {
            role: cell for role, cell in zip(head[2:], cells, strict=True) if cell != NONE
        }
        for noun, verb, *cells in rows
    }


ROLES = tuple(TABLE.split("\n", 2)[1].split()[2:])
"""The highest first: who gives a role must have one there that is as high."""

MAY = _read(TABLE)
"""How far each role's permission reaches, by noun and verb."""

NOUNS = tuple(dict.fromkeys(noun for noun, _ in MAY))
VERBS = tuple(dict.fromkeys(verb for _, verb in MAY))

LETS_IN = ("user.*", "service.*", "role.*", "token.*", "publisher.*", "node.join")
"""What people, programs and machines are let in by: nobody reads or changes it in another's name."""
