"""The `truedraft` command: one thin module per subcommand, imported when it is called.

stdout carries the result, stderr everything else. Exit codes: 0 clean, 1 findings, 2 usage or input error,
3 could not decide. Errors are one line without a traceback.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from truedraft import __version__
from truedraft.cli._printable import printable
from truedraft.contract import TruedraftError

COMMANDS = {
    "audit": "What a vLLM release really does with every kind of drafter: its own functions, called.",
    "check": "What is wrong with a pair, or will go wrong in an engine, seen from its files alone.",
    "collect": "Everything that a report of low acceptance should hold, in one redacted file.",
    "compare": "Whether two arms accept differently, from their records: intervals over boots and prompts.",
    "contract": "How the drafter was trained: every convention, its value and its source.",
    "diagnose": "Why acceptance is low, or that it is normal: causes, evidence, the next experiment.",
    "doctor": "Whether a pair runs as it was trained: files, output and weights, and what to do first.",
    "engines": "The engine releases whose reading of a pair is known to `check`.",
    "experiment": "What a fix does to acceptance in vLLM: fresh boots of all arms in turn, with intervals.",
    "explain": "The manual page of a finding's code.",
    "fetch": "A real pretrained target from the Python registry, dequantised into a directory.",
    "measure": "Acceptance from any engine's logs, counters and benchmark files, or from a running server.",
    "plan": "How many boots and prompts a comparison needs, from a pilot's records.",
    "probe": "Which conventions the weights were trained with, measured by replay.",
    "run": "Decode speculatively, measure acceptance and check losslessness.",
    "trace": "Which step of a live engine's drafter leaves the contract, from a trace of TRUEDRAFT_TRACE.",
}
"""Subcommand -> summary. Each is the `command` of the module `truedraft.cli.NAME`."""

INTERRUPTED = 130
BROKEN_PIPE = 141


class LazyGroup(click.Group):
    """Imports a subcommand's module only when that subcommand is called, so that no other pays for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"truedraft.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, no_args_is_help=False)
@click.version_option(__version__, prog_name="truedraft", message="%(prog)s %(version)s")
def group() -> None:
    """Run a speculative-decoding pair the way its drafter was trained."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's) and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without × or … must not turn the result into a traceback.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except TruedraftError as error:
        return _fail(str(error), error.exit_code)
    except click.ClickException as error:
        return _fail(" ".join(error.format_message().split()), 2)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", INTERRUPTED)
    except (MemoryError, RecursionError) as error:
        return _fail(f"{type(error).__name__}: the input is too large for this machine", 2)
    except BrokenPipeError:
        # The reader has gone; Python would complain again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    return code


def _run(argv: list[str]) -> int:
    try:
        with group.make_context("truedraft", argv) as context:
            code = group.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    print(f"truedraft: error: {printable(message)}", file=sys.stderr)
    return code
