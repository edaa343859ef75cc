"""Recording: what is listened to, when it ends, and that all is put back. Real traces: `tests/trace`."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open

from truedraft.engines.vllm.settings import MOST_ROUNDS, ROUNDS, read_settings
from truedraft.engines.vllm.tracing import start as starting
from truedraft.engines.vllm.tracing.patches import Patches
from truedraft.engines.vllm.tracing.points import listen
from truedraft.engines.vllm.tracing.recorder import Recorder

TRACE, COUNT = "TRUEDRAFT_TRACE", "TRUEDRAFT_TRACE_ROUNDS"


class Adder:
    def add(self, a, b=1):
        return a + b


def raises(error):
    raise error


def test_a_method_is_heard_and_put_back():
    heard, adder = [], Adder()
    patches = Patches(raises)
    found = patches.listen(
        adder,
        "add",
        before=lambda args, kwargs: heard.append((args, kwargs)),
        after=lambda args, kwargs, result: heard.append(result),
    )
    assert found
    assert adder.add(2, b=3) == 5
    assert heard == [((2,), {"b": 3}), 5]
    patches.remove()
    assert vars(adder) == {}
    assert adder.add.__func__ is Adder.add
    assert not patches.listen(adder, "subtract")


def test_what_an_object_had_of_its_own_comes_back():
    adder = Adder()
    adder.add = own = lambda a: a * 10
    patches = Patches(raises)
    patches.listen(adder, "add")
    assert adder.add(2) == 20
    patches.remove()
    assert adder.add is own


def test_who_wraps_a_listened_method_keeps_it():
    heard, adder = [], Adder()
    patches = Patches(raises)
    patches.listen(adder, "add", before=lambda args, kwargs: heard.append(args))
    inner = adder.add
    adder.add = wrapper = lambda *args: inner(*args) + 100
    patches.remove()
    assert adder.add is wrapper
    assert adder.add(1) == 102
    assert heard == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_listeners_error_ends_listening_and_nothing_else(side):
    failures, adder = [], Adder()
    patches = Patches(failures.append)
    patches.listen(adder, "add", **{side: lambda *_: raises(ValueError("no such row"))})
    assert adder.add(2) == 3
    assert [str(error) for error in failures] == ["no such row"]
    assert vars(adder) == {}
    assert adder.add(2) == 3
    assert len(failures) == 1


def recorded(path: Path) -> tuple[dict[str, str], list[str]]:
    with safe_open(path, framework="pt") as file:
        return file.metadata(), sorted(file.keys())


def round_of(recorder: Recorder, request: str, rows: int = 3) -> None:
    recorder.begin([request], [[1, 2]])
    recorder.add(torch.arange(rows), "tokens")
    recorder.end(torch.zeros(1, 2))


def test_rounds_up_to_the_limit_are_kept(tmp_path):
    path, ends = tmp_path / "deep" / "t.safetensors", []
    recorder = Recorder(path, 3, 10**9, {"engine": "none"}, lambda rounds, size: ends.append((rounds, size)))
    written = []
    for number in range(5):
        round_of(recorder, f"r{number % 2}")
        written.append(sorted({key.split(".")[1] for key in recorded(path)[1]}))
    assert written == [["0"], ["0", "1"], ["0", "1", "2"], ["0", "1", "2"], ["0", "1", "2"]]
    assert [rounds for rounds, _ in ends] == [3]
    metadata, keys = recorded(path)
    assert '"rounds": 3' in metadata["truedraft_trace"]
    assert '"requests": [{"id": "r0", "prompt": [1, 2]}, {"id": "r1"' in metadata["truedraft_trace"]
    assert keys[:3] == ["rounds.0.drafts", "rounds.0.requests", "rounds.0.tokens"]
    assert list(path.parent.iterdir()) == [path]


def test_bytes_end_a_trace_too(tmp_path):
    path, ends = tmp_path / "t.safetensors", []
    recorder = Recorder(path, 100, 2000, {}, lambda rounds, size: ends.append(rounds))
    for _ in range(9):
        round_of(recorder, "r", rows=100)
    assert ends == [3]


def test_nothing_stays_in_memory_after_the_limit(tmp_path):
    path = tmp_path / "t.safetensors"
    recorder = Recorder(path, 1, 10**9, {}, lambda *_: None)
    round_of(recorder, "r")
    kept = path.read_bytes()
    assert (recorder._tensors, recorder._round) == ({}, {})
    round_of(recorder, "r")
    recorder.write()  # at exit
    assert (recorder.rounds, path.read_bytes()) == (1, kept)


def test_a_round_that_the_host_broke_off_leaves_nothing(tmp_path):
    path = tmp_path / "t.safetensors"
    recorder = Recorder(path, 1, 10**9, {}, lambda *_: None)
    recorder.begin(["gone"], [None])
    recorder.add(torch.ones(3), "calls", recorder.next_call("calls"), "hidden")
    round_of(recorder, "r")
    assert recorded(path)[1] == ["rounds.0.drafts", "rounds.0.requests", "rounds.0.tokens"]


def test_an_error_writes_what_there_is(tmp_path, monkeypatch, caplog):
    """The rounds before it are not lost, and a method that cannot be listened to leaves none wrapped."""
    drafter, caught = traced(tmp_path, monkeypatch, lambda patches: None)
    for _ in range(3):
        drafter.propose()
    drafter.result = object()  # no tensor
    assert drafter.propose() is drafter.result
    assert "propose" not in vars(drafter)
    assert {key.split(".")[1] for key in recorded(tmp_path / "t.safetensors")[1]} == {"0", "1", "2"}
    assert caught[0]._tensors == {}
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]


def test_listening_that_fails_half_way_is_taken_back(tmp_path, monkeypatch):
    with pytest.raises(AttributeError):
        traced(tmp_path, monkeypatch, lambda patches: patches.no_such_method)
    assert "propose" not in vars(Proposer.latest)


class Proposer:
    """A drafter as far as its rounds go."""

    latest: Proposer

    def __init__(self) -> None:
        self.model = type(next(iter(starting.GENERIC)), (), {})()
        self.result: object = torch.zeros(1, 2)
        Proposer.latest = self

    def propose(self) -> object:
        return self.result


def traced(tmp_path, monkeypatch, further):
    """A drafter whose rounds `start` records, and its recorder."""
    caught = []

    def listen(runner, recorder, patches, layers):
        caught.append(recorder)
        patches.listen(
            runner.drafter,
            "propose",
            before=lambda *_: recorder.begin(["r"], [None]),
            after=lambda _args, _kwargs, result: recorder.end(result),
        )
        further(patches)

    monkeypatch.setattr(starting, "served", lambda _config: SimpleNamespace(target="t", draft="d"))
    monkeypatch.setattr(starting, "proposals_of", lambda _drafter: 2)
    monkeypatch.setattr(starting, "width_of", lambda *_: 3)
    monkeypatch.setattr(starting, "listen", listen)
    monkeypatch.setattr(starting.atexit, "register", lambda *_: None)
    config = SimpleNamespace(
        speculative_config=SimpleNamespace(method="dflash"),
        model_config=SimpleNamespace(enforce_eager=True),
        parallel_config=SimpleNamespace(rank=0, tensor_parallel_size=1),
    )
    drafter = Proposer()
    settings = read_settings({TRACE: str(tmp_path / "t.safetensors")})
    starting.start(config, SimpleNamespace(drafter=drafter), settings, "0.32.0")
    return drafter, caught


def test_what_is_not_of_a_round_is_not_kept(tmp_path):
    recorder = Recorder(tmp_path / "t.safetensors", 2, 10**9, {}, lambda *_: None)
    recorder.add(torch.ones(2), "taps")
    recorder.add_head(torch.ones(2), torch.ones(2, 4), "target")
    recorder.end(torch.ones(1))
    assert recorder.rounds == 0
    recorder.write()
    assert not (tmp_path / "t.safetensors").exists()


def test_a_copy_is_kept(tmp_path):
    path = tmp_path / "t.safetensors"
    recorder = Recorder(path, 1, 10**9, {}, lambda *_: None)
    buffer = torch.ones(2, 4)
    recorder.begin(["r"], [None])
    recorder.add(buffer.T, "taps")
    buffer.zero_()
    recorder.end(None)
    with safe_open(path, framework="pt") as file:
        assert torch.equal(file.get_tensor("rounds.0.taps"), torch.ones(4, 2))


@pytest.mark.parametrize(
    ("environment", "rounds"), [({}, ROUNDS), ({COUNT: "7"}, 7), ({COUNT: str(MOST_ROUNDS)}, MOST_ROUNDS)]
)
def test_orders(environment, rounds, tmp_path):
    settings = read_settings({TRACE: str(tmp_path / "t"), **environment})
    assert (settings.trace, settings.trace_rounds, settings.mode) == (tmp_path / "t", rounds, "off")


@pytest.mark.parametrize("word", ["0", "-1", "x", "1e3", "1.5", "²", str(MOST_ROUNDS + 1), "9" * 40])
def test_bad_counts_are_refused_by_name(word):
    with pytest.raises(ValueError, match=COUNT):
        read_settings({TRACE: "t", COUNT: word})


@pytest.mark.parametrize(
    ("replica", "rank", "expected"),
    [(0, 0, "t.safetensors"), (0, 3, "t.rank3.safetensors"), (2, 1, "t.dp2.rank1.safetensors")],
)
def test_each_rank_has_its_file(replica, rank, expected, tmp_path):
    parallel = SimpleNamespace(data_parallel_rank=replica, rank=rank)
    assert starting._of_this_rank(tmp_path / "t.safetensors", parallel) == tmp_path / expected


class Odd(torch.nn.Module):
    """A drafter of no known class."""


@pytest.mark.parametrize(
    ("version", "model", "said"),
    [("0.33.0", Odd(), "this is 0.33.0: nothing is recorded"), ("0.32.0", Odd(), "cannot trace Odd on v1")],
)
def test_what_cannot_be_traced_is_one_line(version, model, said, monkeypatch, caplog):
    pair = SimpleNamespace(target="t", draft="d")
    monkeypatch.setattr(starting, "served", lambda _config: pair)
    config = SimpleNamespace(speculative_config=SimpleNamespace(method="dflash"))
    runner = SimpleNamespace(drafter=SimpleNamespace(model=model))
    with caplog.at_level(logging.INFO, "vllm.truedraft"):
        starting.start(config, runner, read_settings({TRACE: "t"}), version)
    assert [record.message for record in caplog.records if said in record.message] == [
        caplog.records[0].message
    ]
    assert len(caplog.records) == 1


class Attention(torch.nn.Module):
    """vLLM's `Attention`, as far as it is listened to."""

    def __init__(self):
        super().__init__()
        self.impl = SimpleNamespace(do_kv_cache_update=lambda *_: None)

    def forward(self, query, key, value):
        return query


class Layer(torch.nn.Module):
    """A draft layer."""

    def __init__(self):
        super().__init__()
        self.self_attn = torch.nn.Module()
        self.self_attn.attn, self.self_attn.head_dim = Attention(), 2

    def forward(self, hidden_states, residual=None):
        self.self_attn.attn(hidden_states, hidden_states, hidden_states)
        return hidden_states, hidden_states


class BlockModel(torch.nn.Module):
    """A block drafter, as far as it is listened to."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Module()
        self.model.layers = torch.nn.ModuleList([Layer()])

    def forward(self, input_ids, positions):
        hidden = torch.ones(len(input_ids), 2)
        return self.model.layers[0](hidden_states=hidden)[0]

    def combine_hidden_states(self, taps):
        return taps

    def precompute_and_store_context_kv(self, states, positions, slots):
        pass

    def compute_logits(self, hidden):
        return hidden


class Block:
    """A proposer of the V1 runner."""

    def __init__(self):
        self.model = BlockModel()

    def propose(self, target_token_ids, target_positions, common_attn_metadata):
        self.model.combine_hidden_states(torch.ones(3, 4))
        self.model(input_ids=torch.arange(2), positions=torch.arange(2))
        return torch.zeros(1, 1)


@pytest.mark.parametrize("layers", [True, False])
def test_nothing_inside_is_listened_to_before_the_first_round(layers, tmp_path):
    """Warming up and compiling must meet the model as it is, and compiled layers no listener at all."""
    block = Block()
    runner = SimpleNamespace(drafter=block, input_batch=SimpleNamespace(req_ids=["r"]), requests={})
    patches, path = Patches(raises), tmp_path / "t.safetensors"
    recorder = Recorder(path, 1, 10**9, {}, lambda *_: patches.remove())
    listen(runner, recorder, patches, layers=layers)
    parts = [*block.model.modules(), block.model.model.layers[0].self_attn.attn.impl]
    assert not any(callable(value) for part in parts[:-1] for value in vars(part).values())
    block.model(input_ids=torch.arange(2), positions=torch.arange(2))
    metadata = SimpleNamespace(query_start_loc=torch.tensor([0, 3]))
    block.propose(torch.arange(3), torch.arange(3), common_attn_metadata=metadata)
    keys = {key.split(".", 2)[2] for key in recorded(path)[1]}
    assert {"taps", "calls.0.ids", "calls.0.hidden", "drafts"} <= keys
    assert ("calls.0.query.0" in keys) is layers
    assert not any(callable(value) for part in parts[:-1] for value in vars(part).values())
    assert "propose" not in vars(block)
