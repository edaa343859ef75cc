"""What one boot asks of vLLM and reads from it, on stand-ins with the attributes of vLLM 0.32's objects."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from truedraft.engines.vllm import boot
from truedraft.engines.vllm.experiment.result import read_result

SETTINGS = {"k": 3}


class FakeLLM:
    """Two rounds of three drafts per request; all accepted in the first, none in the second."""

    made: dict[str, Any]

    def __init__(self, **arguments: Any) -> None:
        type(self).made = arguments
        self.requests = 0
        self.speculative = "speculative_config" in arguments
        runner = type("Runner", (), {"__module__": "vllm.v1.worker.gpu.model_runner"})()
        worker = SimpleNamespace(worker=SimpleNamespace(model_runner=runner))
        core = SimpleNamespace(
            vllm_config=SimpleNamespace(cache_config=SimpleNamespace(block_size=32)),
            model_executor=SimpleNamespace(driver_worker=worker),
        )
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(engine_core=core))

    def get_metrics(self) -> list[SimpleNamespace]:
        n = self.requests
        found = [SimpleNamespace(name="vllm:prompt_tokens", value=11)]
        if self.speculative and n:
            totals = {"num_drafts": 2 * n, "num_draft_tokens": 6 * n, "num_accepted_tokens": 3 * n}
            # Two engines under one name, as data parallelism has them.
            for part in (0, 1):
                for name, value in totals.items():
                    half = value // 2 if part else value - value // 2
                    found.append(SimpleNamespace(name=f"vllm:spec_decode_{name}", value=half))
            name = "vllm:spec_decode_num_accepted_tokens_per_pos"
            found += [
                SimpleNamespace(name=name, values=[n, n, n]),
                SimpleNamespace(name=name, values=[0, 0, 0]),
            ]
        return found

    def generate(self, prompts: list[dict[str, Any]], sampling: Any, use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        assert sampling.arguments["temperature"] == 0.0
        self.requests += 1
        print(f"(pid=1) INFO 11-30 [x.py:1] truedraft fix: {self.requests} axes")
        tokens = [*prompts[0]["prompt_token_ids"], sampling.arguments["max_tokens"]]
        answer = SimpleNamespace(token_ids=tokens, logprobs=None)
        return [SimpleNamespace(outputs=[answer], num_cached_tokens=None if self.requests == 1 else 16)]


class FakeSampling:
    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = ModuleType("vllm")
    module.LLM, module.SamplingParams = FakeLLM, FakeSampling  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    for name in (
        "VLLM_USE_V2_MODEL_RUNNER",
        "VLLM_ENABLE_V1_MULTIPROCESSING",
        "VLLM_NO_USAGE_STATS",
        "VLLM_LOGGING_LEVEL",
    ):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "7")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "log").write_text(
        "(pid=1) INFO 11-30 [x.py:1] truedraft fix taps.layers: 1 -> 2\n\x1b[0mother\n"
    )
    return {
        "settings": SETTINGS,
        "arm": "fix",
        "boot": 1,
        "out": str(tmp_path / "out.json"),
        "log": str(tmp_path / "log"),
        "target": str(tmp_path),
        "speculative": {"method": "dflash"},
        "runner": "v1",
        "prompts": [{"id": "a", "tokens": [5, 6]}, {"id": "b", "tokens": [7]}],
        "max_new_tokens": 9,
        "repeat": 2,
        "prefix_caching": True,
        "engine_args": {"block_size": 32, "dtype": "bfloat16"},
    }


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    order = folder / "job"
    order.write_text(json.dumps(job))
    assert boot.main([str(order)]) == 0
    found: dict[str, Any] = json.loads(Path(job["out"]).read_text())
    assert {path.name for path in folder.iterdir()} == {"job", "log", "out.json"}
    return found


def test_counts_are_of_one_request(job: dict[str, Any], tmp_path: Path) -> None:
    found = run(job, tmp_path)
    asked = [(request["pass"], request["prompt_id"], request["output"]) for request in found["requests"]]
    assert asked == [(n, name, [*ids, 9]) for n in (0, 1) for name, ids in (("a", [5, 6]), ("b", [7]))]
    for request in found["requests"]:
        assert [request[name] for name in boot.COUNTERS] == [2, 6, 3]
        assert request["reached"] == [1, 1, 1]
    assert [request["cached_tokens"] for request in found["requests"]] == [0, 16, 16, 16]
    result = read_result(Path(job["out"]), SETTINGS, "fix", 1)
    assert result.requests[0].histogram() == ((3, 0, 1), (3, 3, 1))
    assert (result.runner, result.block_size, result.device) == ("v2", 32, "cpu")
    assert result.said == ("fix taps.layers: 1 -> 2",)


def test_what_is_asked_of_vllm(job: dict[str, Any], tmp_path: Path) -> None:
    run(job, tmp_path)
    assert FakeLLM.made == {
        "model": str(tmp_path),
        "skip_tokenizer_init": True,
        "max_num_seqs": 1,
        "disable_log_stats": False,
        "enable_prefix_caching": True,
        "enforce_eager": True,
        "dtype": "bfloat16",
        "block_size": 32,
        "speculative_config": {"method": "dflash"},
    }


def test_plain_decoding_has_no_drafter_and_no_counts(job: dict[str, Any], tmp_path: Path) -> None:
    found = run(job | {"speculative": None}, tmp_path)
    assert "speculative_config" not in FakeLLM.made
    assert {(request["num_drafts"], tuple(request["reached"])) for request in found["requests"]} == {(0, ())}


def test_a_gpu_keeps_the_defaults_of_vllm(job: dict[str, Any]) -> None:
    arguments = boot.engine_arguments(job | {"engine_args": {}}, True)
    assert not {"dtype", "enforce_eager"} & set(arguments)


def test_runner_and_environment(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    boot.arrange("auto")
    assert os.environ["VLLM_USE_V2_MODEL_RUNNER"] == ""
    boot.arrange("v1")
    assert os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "7", "the user's own"
    triton = SimpleNamespace(backends=SimpleNamespace(backends={}))
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setenv("TRITON_INTERPRET", "")
    boot.arrange("v2")
    assert os.environ["TRITON_INTERPRET"] == "1"
    assert triton.backends.backends["cpu"].driver.is_active()


def test_the_module_imports_nothing_of_truedraft() -> None:
    tree = ast.parse(Path(boot.__file__).read_text())
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert others == {"torch", "triton", "vllm"}
