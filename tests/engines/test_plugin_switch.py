"""What `TRUEDRAFT` switches on, and that nothing of the plugin's own gets out of it."""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_vllm import Engine

from truedraft.contract import InputError
from truedraft.engines.vllm import plugin, session, wrap
from truedraft.engines.vllm.hook import when_imported
from truedraft.engines.vllm.release import is_tested, known_release
from truedraft.engines.vllm.settings import Settings, read_settings

LOGGER = "vllm.truedraft"
SET, MEASURED = "TRUEDRAFT_SET", "TRUEDRAFT_MEASURED"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Settings()),
        ({"TRUEDRAFT": ""}, Settings()),
        ({"TRUEDRAFT": "off"}, Settings()),
        ({"TRUEDRAFT": " Warn "}, Settings("warn")),
        ({"TRUEDRAFT": "fix:taps, rope.theta"}, Settings("fix", ("taps", "rope.theta"))),
        (
            {"TRUEDRAFT": "error", SET: "taps.layers=1,4 ; rope.theta=1e4"},
            Settings("error", overrides=("taps.layers=1,4", "rope.theta=1e4")),
        ),
        ({"TRUEDRAFT": "fix", MEASURED: "p.json"}, Settings("fix", measured=Path("p.json"))),
    ],
)
def test_orders(environment, expected):
    assert read_settings(environment) == expected


@pytest.mark.parametrize("word", ["eror", "warn:taps", "fix:", "fix:tap", "on"])
def test_orders_that_mean_nothing_are_refused_by_name(word):
    with pytest.raises(ValueError, match="TRUEDRAFT"):
        read_settings({"TRUEDRAFT": word})


def test_fix_names_axes_or_groups():
    assert Settings("fix").mends("rope.theta")
    assert Settings("fix", ("rope",)).mends("rope.theta")
    assert not Settings("fix", ("rope",)).mends("taps.layers")
    assert not Settings("warn").mends("rope.theta")


@pytest.mark.parametrize(
    ("version", "tested"), [("0.32.0", True), ("0.32.1+cpu", True), ("0.32.0rc1", False), ("0.33.0", False)]
)
def test_the_tested_range(version, tested):
    assert is_tested(version) is tested


def test_the_nearest_known_release_of_a_minor():
    assert str(known_release("0.32.4", "v2").id) == "vllm:0.32.0:v2"
    assert known_release("0.99.0", "v1") is None
    assert known_release("unknown", "v1") is None


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(plugin, "_registered", False)
    before = list(sys.meta_path)
    yield plugin.register
    sys.meta_path[:] = before


def test_a_trace_alone_is_an_order(fresh, monkeypatch):
    monkeypatch.setenv("TRUEDRAFT", "off")
    monkeypatch.setenv("TRUEDRAFT_TRACE", "t.safetensors")
    before = len(sys.meta_path)
    fresh()
    assert len(sys.meta_path) == before + 1


@pytest.mark.parametrize("word", [None, "off", ""])
def test_off_patches_nothing(word, fresh, monkeypatch):
    monkeypatch.delenv("TRUEDRAFT", raising=False)
    monkeypatch.delenv("TRUEDRAFT_TRACE", raising=False)
    if word is not None:
        monkeypatch.setenv("TRUEDRAFT", word)
    before = list(sys.meta_path)
    fresh()
    assert sys.meta_path == before


def test_a_bad_order_is_one_line_and_off(fresh, monkeypatch, caplog):
    monkeypatch.setenv("TRUEDRAFT", "eror")
    before = list(sys.meta_path)
    fresh()
    fresh()
    assert sys.meta_path == before
    assert len(caplog.records) == 1
    assert "truedraft is off" in caplog.text


@pytest.mark.parametrize(("word", "count"), [("warn", 1), ("error", 1), ("fix", 2)])
def test_registering_twice_hooks_once(word, count, fresh, monkeypatch):
    monkeypatch.setenv("TRUEDRAFT", word)
    before = len(sys.meta_path)
    fresh()
    fresh()
    assert len(sys.meta_path) == before + count


def test_loading_the_plugin_imports_nothing_heavy_and_is_quick():
    code = (
        "import sys, time; t = time.process_time()\n"
        "from truedraft.engines.vllm.plugin import register; register()\n"
        "import json; names = {m.split('.')[0] for m in sys.modules} | set(sys.modules)\n"
        "heavy = ['torch', 'transformers', 'numpy', 'click', 'rich', 'truedraft.contract']\n"
        "print(json.dumps([time.process_time() - t, [n for n in heavy if n in names]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"TRUEDRAFT": "warn", "PYTHONPATH": str(Path(plugin.__file__).parents[3])},
    )
    seconds, heavy = json.loads(done.stdout)
    assert heavy == []
    assert seconds < 0.5


def test_the_entry_point_names_the_function():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["vllm.general_plugins"]["truedraft"].partition(":")
    assert getattr(importlib.import_module(module), name) is plugin.register


def test_an_action_waits_for_the_import(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    finders = len(sys.meta_path)
    when_imported("late_module", lambda module: seen.append(module.value))
    assert seen == []
    module = importlib.import_module("late_module")
    when_imported("late_module", lambda module: seen.append(module.value + 1))
    assert seen == [1, 2]
    assert len(sys.meta_path) == finders
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__.loader is module.__loader__


def worker_module(load):
    """`v1/worker/worker_base.py`, as far as it counts."""

    class WorkerWrapperBase:
        def __init__(self):
            self.worker = SimpleNamespace(load_model=load, model_runner="runner")
            self.vllm_config = "config"

        def __getattr__(self, name):
            return getattr(self.worker, name)

    return SimpleNamespace(WorkerWrapperBase=WorkerWrapperBase)


def test_a_worker_is_examined_after_its_load_and_once(monkeypatch):
    order = []

    def load(*args, **kwargs):
        order.append((args, kwargs))
        return "loaded"

    module = worker_module(load)
    monkeypatch.setattr(session, "examine", lambda *args: order.append(args))
    settings = Settings("warn")
    wrap.wrap_worker(module, settings)
    wrap.wrap_worker(module, settings)
    assert module.WorkerWrapperBase().load_model(load_dummy_weights=True) == "loaded"
    assert order == [((), {"load_dummy_weights": True}), ("config", "runner", settings)]


def test_a_wrapper_that_has_its_own_load_keeps_it(monkeypatch):
    module = worker_module(lambda: "worker's")
    module.WorkerWrapperBase.load_model = lambda self: "wrapper's"
    monkeypatch.setattr(session, "examine", lambda *args: None)
    wrap.wrap_worker(module, Settings("warn"))
    assert module.WorkerWrapperBase().load_model() == "wrapper's"


def test_errors_of_ours_become_one_line(monkeypatch, caplog):
    def broken(*args):
        raise KeyError("first\nsecond")

    module = worker_module(lambda: "loaded")
    monkeypatch.setattr(session, "examine", broken)
    wrap.wrap_worker(module, Settings("error"))
    assert module.WorkerWrapperBase().load_model() == "loaded"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "vLLM runs on without it" in caplog.text
    wrap.wrap_worker(SimpleNamespace(), Settings("warn"))
    assert "could not wrap the worker" in caplog.text


def test_errors_of_the_host_pass():
    def load():
        raise MemoryError

    module = worker_module(load)
    wrap.wrap_worker(module, Settings("warn"))
    with pytest.raises(MemoryError):
        module.WorkerWrapperBase().load_model()


def test_a_refusal_stops_the_load(monkeypatch):
    def refuse(*args):
        raise wrap.RefusedError("truedraft refuses to start")

    module = worker_module(lambda: "loaded")
    monkeypatch.setattr(session, "examine", refuse)
    wrap.wrap_worker(module, Settings("error"))
    with pytest.raises(wrap.RefusedError, match="refuses"):
        module.WorkerWrapperBase().load_model()


@pytest.fixture
def version(monkeypatch):
    def use(number):
        monkeypatch.setattr(session, "vllm_version", lambda: number)

    use("0.32.0")
    return use


def test_warn_writes_a_line_per_axis_and_goes_on(version, caplog):
    caplog.set_level(logging.INFO, LOGGER)
    engine = Engine("tiny/dflash-full")
    engine.target.model.aux_hidden_state_layers = (1, 4, 6)
    engine.drafter.parallel_drafting_token_id = 0
    assert session.examine(engine.config, engine.runner, Settings("warn")) is not None
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2
    assert errors[0].startswith(
        "truedraft TD401 taps.layers: vllm:0.32.0:v1 captures the outputs of 0/3/5, the contract says 1/4/6"
    )
    assert "source: draft/config.json#/dflash_config/target_layer_ids" in errors[0]
    assert all("\n" not in line for line in errors)
    assert "2 findings" in caplog.records[-1].getMessage()


def test_a_healthy_engine_gives_one_line_in_all(version, caplog):
    caplog.set_level(logging.INFO, LOGGER)
    engine = Engine("tiny/dflash-full")
    session.examine(engine.config, engine.runner, Settings("error"))
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "all as trained" in caplog.text


def test_without_a_trace_the_hot_path_is_vllms_own(version, monkeypatch):
    """`warn` reads: drafter, model and layers have the same attributes and code objects as before."""
    engine = Engine("tiny/dflash-full")
    engine.drafter.propose = lambda: None
    module = worker_module(lambda: "loaded")
    wrap.wrap_worker(module, Settings("warn"))
    wrapper = module.WorkerWrapperBase()
    wrapper.worker.model_runner, wrapper.vllm_config = engine.runner, engine.config
    parts = [engine.drafter, *engine.model.modules(), *engine.target.modules()]
    before = [dict(vars(part)) for part in parts]
    assert wrapper.load_model() == "loaded"
    assert [dict(vars(part)) for part in parts] == before
    hooks = ("_forward_hooks", "_forward_pre_hooks")
    assert not any(getattr(part, hook, None) for part in parts for hook in hooks)


@pytest.mark.parametrize(("mode", "calls"), [("off", ["trace"]), ("warn", ["examine", "trace"])])
def test_a_trace_is_begun_after_the_examination(mode, calls, monkeypatch, tmp_path):
    from truedraft.engines.vllm.tracing import start as starting

    order = []
    monkeypatch.setattr(session, "vllm_version", lambda: "0.32.0")
    monkeypatch.setattr(session, "examine", lambda *args: order.append("examine"))
    monkeypatch.setattr(starting, "start", lambda *args: order.append("trace"))
    module = worker_module(lambda: "loaded")
    wrap.wrap_worker(module, Settings(mode, trace=tmp_path / "t"))
    assert module.WorkerWrapperBase().load_model() == "loaded"
    assert order == calls


def test_error_refuses_by_name(version):
    engine = Engine("tiny/dflash-full")
    engine.target.model.aux_hidden_state_layers = (1, 4, 6)
    with pytest.raises(wrap.RefusedError, match=r"taps\.layers \(TD401\)") as caught:
        session.examine(engine.config, engine.runner, Settings("error"))
    assert "\n" not in str(caught.value)


def test_error_lets_warnings_pass(version):
    engine = Engine("tiny/dflash-full")
    engine.drafter.num_speculative_tokens = 4
    judgement = session.examine(engine.config, engine.runner, Settings("error"))
    assert [finding.severity for finding in judgement.findings] == ["warning"]


def test_overrides_are_the_contract(version, caplog):
    engine = Engine("tiny/dflash-full")
    settings = Settings("warn", overrides=("taps.layers=0,3,5",))
    judgement = session.examine(engine.config, engine.runner, settings)
    assert [finding.axis for finding in judgement.findings] == ["taps.layers"]
    assert "| source: TRUEDRAFT_SET taps.layers=0,3,5 | remedy: " in caplog.text
    assert "TRUEDRAFT=fix:taps.layers" in caplog.text


def test_other_releases_get_static_checks_only(version, caplog):
    version("0.33.1")
    engine = Engine("tiny/dflash-full")
    engine.target.model.aux_hidden_state_layers = (1, 4, 6)
    assert session.examine(engine.config, engine.runner, Settings("error")) is None
    assert [record.getMessage() for record in caplog.records] == [
        "truedraft knows vLLM 0.32.x, this is 0.33.1: static checks only"
    ]


def test_known_older_releases_are_checked_by_their_readings(version, caplog):
    version("0.20.1")
    engine = Engine("tiny/dflash-full")
    session.examine(engine.config, engine.runner, Settings("warn"))
    assert "truedraft TD401 taps.layers: vllm:0.20.1:v1" in caplog.text


def test_engines_without_a_drafter_are_left_alone(version, caplog):
    engine = Engine("tiny/dflash-full")
    engine.config.speculative_config.method = "ngram"
    assert session.examine(engine.config, engine.runner, Settings("error")) is None
    engine.config.speculative_config = None
    assert session.examine(engine.config, engine.runner, Settings("error")) is None
    assert caplog.records == []


def test_files_that_are_not_there_are_named(version, monkeypatch):
    engine = Engine("tiny/dflash-full")
    engine.config.model_config.model = "nobody/nothing"
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=_absent))
    with pytest.raises(InputError, match="nobody/nothing: no local snapshot"):
        session.examine(engine.config, engine.runner, Settings("warn"))


def _absent(*args, **kwargs):
    raise FileNotFoundError("not cached")


def test_a_hub_id_is_its_snapshot(version, monkeypatch):
    engine = Engine("tiny/dflash-full")
    where = engine.config.model_config.model
    engine.config.model_config.model = "org/name"
    asked = []

    def snapshot(name, revision, local_files_only):
        asked.append((name, revision, local_files_only))
        return where

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot))
    assert session.examine(engine.config, engine.runner, Settings("warn")).findings == ()
    assert asked == [("org/name", None, True)]
