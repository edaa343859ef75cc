"""Make the bundled pair of the exported drafters and 24 evaluation prompts: python pair.py.

Writes `pair.json`, `prompts.json` (12 tasks of HumanEval and 12 questions of GSM8K, evenly spaced in their
lists, as text with the chat template) and the drafters' config and weights. The model cards are
written by hand and stay.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

from truedraft.formats import locate
from truedraft.models.load import load_tokenizer

import target as smollm2
from evaluation import lists
from settings import DRAFTERS, EXPORTS, HERE, MAX_NEW_TOKENS

PAIR = HERE.parents[1] / "src" / "truedraft" / "pairs" / "smollm2"
OF_EACH_LIST = 12
FILES = ("config.json", "model.safetensors")
NOTE = (
    "12 tasks of HumanEval (MIT, OpenAI) and 12 questions of GSM8K's test split (MIT, OpenAI), evenly spaced "
    "in their lists, with the target's chat template. No drafter was trained on them."
)


def spaced(items: list[Any], count: int) -> list[Any]:
    """`count` items at equal distances, the first one included."""
    return [items[number * len(items) // count] for number in range(count)]


def prompts(tokenizer: Any) -> list[dict[str, str]]:
    """Prompts as text that the tokenizer turns into the ids of the chat template."""
    out = []
    for entries in lists().values():
        for name, text in spaced(entries, OF_EACH_LIST):
            chat = smollm2.chat_text(tokenizer, text)
            if tokenizer(chat).input_ids != smollm2.chat_ids(tokenizer, text):
                raise ValueError(f"{name}: the chat's text gives other ids than the chat")
            out.append({"id": name, "text": chat})
    return out


def main() -> None:
    """Write the pair."""
    directory, _ = locate(smollm2.NAME)
    assert directory is not None
    wanted = [EXPORTS / name / file for name in DRAFTERS for file in FILES]
    if missing := [path for path in wanted if not path.exists()]:
        raise SystemExit(f"{missing[0]}: not there, expected both drafters (python train.py NAME)")
    PAIR.mkdir(parents=True, exist_ok=True)
    content = {
        "schema": 1,
        "note": NOTE,
        "max_new_tokens": MAX_NEW_TOKENS,
        "prompts": prompts(load_tokenizer(directory)),
    }
    (PAIR / "prompts.json").write_text(json.dumps(content, indent=1) + "\n")
    manifest = {
        "schema": 1,
        "default": "dspark",
        "drafters": sorted(DRAFTERS),
        "fetched_target": smollm2.NAME,
        "prompts": "prompts.json",
    }
    (PAIR / "pair.json").write_text(json.dumps(manifest, indent=1) + "\n")
    for name in DRAFTERS:
        (PAIR / name).mkdir(exist_ok=True)
        for file in FILES:
            shutil.copyfile(EXPORTS / name / file, PAIR / name / file)


if __name__ == "__main__":
    main()
