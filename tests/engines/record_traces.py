"""Records the traces in `tests/data/engines/traces` from vLLM on CPU.

    TRUEDRAFT=… VLLM_PYTHON tests/engines/record_traces.py NAME OUT

Standalone, with the Python of an environment that holds vLLM and truedraft (README.md here). NAME is one of
`CASES`. Two requests run together; prompts are the first tokens of those that ship with the tiny pair.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from vllm_trace import prepare_environment

ROOT = Path(__file__).resolve().parents[2]
TINY = Path("src/truedraft/pairs/tiny")
ROUNDS, TOKENS, PROMPT = 6, 14, 20

CASES: dict[str, dict[str, Any]] = {
    "dflash-full": {"method": "dflash", "k": 7, "runner": "v1", "mode": "off"},
    "dflash-full-fixed": {"method": "dflash", "k": 7, "runner": "v1", "mode": "fix", "draft": "dflash-full"},
    "prefix-cached": {
        "method": "dflash",
        "k": 7,
        "runner": "v1",
        "mode": "fix",
        "draft": "dflash-full",
        "cached": True,
    },
    "compiled": {
        "method": "dflash",
        "k": 7,
        "runner": "v1",
        "mode": "off",
        "draft": "dflash-full",
        "compiled": True,
    },
    "eagle3": {"method": "eagle3", "k": 5, "runner": "v1", "mode": "off"},
    "dspark": {"method": "dspark", "k": 7, "runner": "v2", "mode": "off"},
    "dflash-speculators": {"method": "dflash", "k": 7, "runner": "v2", "mode": "off"},
}


def main(name: str, out: Path) -> None:
    """Serve the case's drafter and let the plugin trace it."""
    case = CASES[name]
    out = out.absolute()
    os.chdir(ROOT)  # so that the trace names the pair as the repository does
    os.environ |= {
        "TRUEDRAFT": case["mode"],
        "TRUEDRAFT_TRACE": str(out),
        "TRUEDRAFT_TRACE_ROUNDS": str(ROUNDS),
    }
    prepare_environment(case["runner"])
    from transformers import AutoTokenizer
    from vllm import LLM, SamplingParams

    tokenizer = AutoTokenizer.from_pretrained(TINY / "target")
    texts = [entry["text"] for entry in json.loads((TINY / "prompts.json").read_text())["prompts"]]
    prompts = [tokenizer(text).input_ids[: PROMPT + 3 * place] for place, text in enumerate(texts[:2])]
    llm = LLM(
        model=str(TINY / "target"),
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=not case.get("compiled"),
        enable_prefix_caching=bool(case.get("cached")),
        async_scheduling=False,
        max_num_seqs=2,
        max_model_len=512,
        speculative_config={
            "method": case["method"],
            "model": str(TINY / case.get("draft", name)),
            "num_speculative_tokens": case["k"],
        },
    )
    sampling = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    if case.get("cached"):  # the second request finds what the first has left
        for _ in range(2):
            llm.generate([{"prompt_token_ids": tokenizer(texts[0]).input_ids}], sampling, use_tqdm=False)
        return
    llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling, use_tqdm=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
