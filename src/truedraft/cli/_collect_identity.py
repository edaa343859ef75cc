"""Who and where the user is, so that none of it gets into a collected file."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import suppress
from pathlib import Path

from truedraft.cli._measure_input import is_address
from truedraft.diagnose.redact import Identity
from truedraft.formats.hub import hub_id


def identity_of(inputs: tuple[str, ...]) -> Identity:
    """Names of this user and machine, and the paths of the inputs as typed and in full."""
    users = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    with suppress(KeyError, OSError):  # no entry for this user, as in containers
        users.add(getpass.getuser())
    host = socket.gethostname()
    hosts = {host, host.partition(".")[0], os.environ.get("HOSTNAME", "")}
    homes = {os.path.expanduser("~"), os.environ.get("HOME", "")}
    homes = {home.rstrip("/\\") for home in homes if os.path.isabs(home)}
    users |= {Path(home).name for home in homes}
    files = [name for name in inputs if name != "-" and not is_address(name)]
    typed = {name for name in files if hub_id(name) is None or os.path.exists(name)}
    paths = typed | {os.path.abspath(name) for name in typed} | {os.path.realpath(name) for name in typed}
    return Identity(
        users=frozenset(user for user in users if user),
        hosts=frozenset(name for name in hosts if name),
        homes=frozenset(homes - {""}),
        paths=frozenset(stripped for path in paths if (stripped := path.rstrip("/\\"))),
    )
