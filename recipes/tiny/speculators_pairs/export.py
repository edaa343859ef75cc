"""Save a drafter with the library's save_pretrained and make the documented edits."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path

from speculators.model import SpeculatorModel

from settings import PAIR, WORK
from speculators_pairs.plan import Plan

SHIPPED = ("config.json", "model.safetensors")


def edit(plan: Plan, path: Path) -> None:
    """Make the two edits to config.json: a relative verifier path, and for dspark-bonus the
    key sample_from_anchor left out, as in the files published in July 2026.
    """
    config = json.loads(path.read_text())
    config["speculators_config"]["verifier"]["name_or_path"] = "../target"
    if plan.name == "dspark-bonus":
        del config["sample_from_anchor"]
    path.write_text(json.dumps(config, indent=2) + "\n")


def write(plan: Plan, model: SpeculatorModel, root: Path = PAIR) -> None:
    """Save the drafter in fp16 and move its two files into place; config.py is not shipped."""
    staging = WORK / f"{plan.name}.export"
    shutil.rmtree(staging, ignore_errors=True)
    copy.deepcopy(model).half().save_pretrained(staging)
    edit(plan, staging / "config.json")
    folder = root / plan.name
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        (staging / name).chmod(0o644)
        shutil.copy(staging / name, folder / f"{name}.new")
        os.replace(folder / f"{name}.new", folder / name)
    shutil.rmtree(staging)
