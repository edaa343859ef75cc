"""`truedraft explain`: the manual page of a finding's code, or the list of all."""

from __future__ import annotations

import json

import click

from truedraft.checks import all_rules, find_rule
from truedraft.cli._style import Style


@click.command(name="explain")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(code: str | None, as_json: bool) -> int:
    """Print the manual page of CODE (TD104, or the rule's name); without one, list all rules."""
    rules = all_rules() if code is None else (find_rule(code),)
    if as_json:
        pages = [{"code": r.code, "name": r.name, "title": r.title, "manual": r.manual} for r in rules]
        click.echo(json.dumps({"schema": 1, "rules": pages}, indent=2, ensure_ascii=False))
        return 0
    style = Style.for_stdout()
    if code is None:
        width = max(len(rule.name) for rule in rules)
        for rule in rules:
            click.echo(f"{style.bold(rule.code)}  {rule.name.ljust(width)}  {rule.title}")
    else:
        click.echo(style.bold(f"{rules[0].code} {rules[0].name}"))
        click.echo()
        click.echo(rules[0].manual)
    return 0
