"""`template`: which there are, and what one says. `headrace apply` makes them."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.actions import add_action, add_actions, show_list
from headrace.cli.arguments import add_output
from headrace.cli.exits import DONE
from headrace.cli.output import show, terminal_safe
from headrace.client.client import Client

TEMPLATES = ("TEMPLATE", "PROJECT", "SAYS", "DESCRIPTION")


def template_options(parser: ArgumentParser) -> None:
    """The arguments of `template`: an action, and its own."""
    actions = add_actions(parser)
    add_output(add_action(actions, "list", "templates that job files can name"))
    add_output(add_action(actions, "show", "what one says, as its document", "template"))


def template(
    *, action: str, url: str, token: str, project: str, output: str, template: str = ""
) -> int:
    """List templates, or show one as it could be applied again."""
    client = Client.from_config(url=url, token=token, project=project)
    if action == "list":
        rows = client.templates(project)
        cells = [[r.name, r.project or "every", " ".join(r.job), r.description] for r in rows]
        return show_list(rows, TEMPLATES, cells, output)
    row = client.template(template, project=project or client.project)
    if output in ("json", "yaml"):
        show(row, output)
        return DONE
    import yaml

    fields = {
        "type": "template",
        "name": row.name,
        "project": row.project,
        "description": row.description,
        "job": row.job,
    }
    text = yaml.safe_dump(
        {name: value for name, value in fields.items() if value},
        sort_keys=False,
        allow_unicode=True,
    )
    for line in (f"# stands at position {row.position}", *text.splitlines()):
        print(terminal_safe(line))
    return DONE
