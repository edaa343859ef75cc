"""One boot in a process of its own: started, watched, and ended with everything that it started."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from truedraft.contract import InputError
from truedraft.engines.vllm.settings import VARIABLE

MODULE = "truedraft.engines.vllm.boot"
GRACE_S = 5.0
"""Between asking a boot to end and ending it."""

_ERROR = re.compile(r"^(?:.*?\s)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b.*)$")


@dataclass(frozen=True)
class Boots:
    """Where boots run and write. `python`: the interpreter of vLLM's environment; `timeout`: seconds."""

    python: str
    directory: Path
    timeout: float

    def run(self, name: str, job: dict[str, Any], environment: dict[str, str]) -> None:
        """Run one boot to its end. Raises `InputError` of one line if it fails or does not end.

        Nothing of it is left behind but its log: no process, and no result unless it is whole.
        """
        log, order = self.directory / f"{name}.log", self.directory / f"{name}.job"
        try:
            order.write_text(json.dumps(job))
            with log.open("wb") as output:
                code = self._wait(name, order, output, environment)
        except OSError as error:
            raise InputError(f"{error.filename or name}: {error.strerror}, expected to write there") from None
        finally:
            order.unlink(missing_ok=True)
            for partial in self.directory.glob(f"{name}.json.*"):
                partial.unlink(missing_ok=True)
        out = Path(job["out"])
        if code != 0:
            out.unlink(missing_ok=True)
            raise InputError(f"boot {name} failed: {last_error(log) or f'exit code {code}'} (log: {log})")
        if not out.exists():
            raise InputError(f"boot {name} wrote no result (log: {log})")

    def _wait(self, name: str, order: Path, output: IO[bytes], environment: dict[str, str]) -> int:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(VARIABLE)}
        try:
            process = subprocess.Popen(
                [self.python, "-P", "-m", MODULE, str(order)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=inherited | environment,
                start_new_session=True,  # its workers are in its group, and Ctrl-C does not reach it
            )
        except OSError as error:
            raise InputError(f"--python {self.python}: {error.strerror}, expected an interpreter") from None
        try:
            if not _ends_within(process, self.timeout):
                log = order.with_suffix(".log")
                raise InputError(f"boot {name} took more than {self.timeout:g} s, ended (log: {log})")
        finally:
            _end(process)
        return process.returncode


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ends in time. It is not reaped: its number stays that of its group, and nobody else's."""
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process group, workers that outlive their parent included."""
    try:
        if not _ends_within(process, 0):
            os.killpg(process.pid, signal.SIGTERM)
            _ends_within(process, GRACE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_error(log: Path) -> str:
    """The last error that a log states, with the indented lines below it; else its last line, or nothing."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    at = next((i for i in reversed(range(len(lines))) if _ERROR.match(lines[i])), None)
    if at is None:
        return lines[-1].strip()[:400] if lines else ""
    match = _ERROR.match(lines[at])
    assert match is not None
    below = [line for line in lines[at + 1 : at + 3] if line[0] == " "]
    return " ".join([match[1], *below])[:400]
