"""An OpenAI-compatible server in a thread: streams, counts as vLLM does, caches prefixes, can misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

K = 3


class Fake:
    """State of the server. `faults`: prompts -> what happens instead of an answer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rounds = [100, 0, 0, 0]  # rounds, then rounds that reached position 0, 1, 2
        self.tokens = 500
        self.seen: set[str] = set()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: dict[str, str] = {}
        self.per_request = True
        self.metrics = True
        self.other_traffic = 0
        self.slow = 0.0
        self.drifts = False  # another text from a warm cache
        self.open = self.most_open = 0

    def metrics_text(self) -> str:
        labels = 'engine="0",model_name="m"'
        rounds, *reached = self.rounds
        lines = [
            f"vllm:spec_decode_num_drafts_total{{{labels}}} {float(rounds)}",
            f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {float(rounds * K)}",
            f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {float(sum(reached))}",
            f"vllm:generation_tokens_total{{{labels}}} {float(self.tokens)}",
        ]
        for i, count in enumerate(reached):
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            lines.append(f'{name}{{{labels},position="{i}"}} {float(count)}')
        return "\n".join(lines) + "\n"

    def decode(self, prompt: str) -> tuple[list[int], bool]:
        """Accepted drafts of every round, and whether the prompt was cached: then less is accepted."""
        with self.lock:
            cached = prompt in self.seen
            self.seen.add(prompt)
            accepted = [len(prompt) % (K + 1), 3, 0 if cached else 2, 1]
            for count in accepted:
                self.rounds[0] += 1
                for i in range(count):
                    self.rounds[1 + i] += 1
            self.tokens += 1 + sum(accepted) + len(accepted) + self.other_traffic
        return accepted, cached


@contextmanager
def serving() -> Iterator[tuple[str, Fake]]:
    """The server's address and its state."""
    fake = Fake()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._send(json.dumps({"data": [{"id": "m"}]}))
            elif self.path == "/metrics" and fake.metrics:
                self._send(fake.metrics_text())
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
            prompt = prompt if isinstance(prompt, str) else str(prompt)
            with fake.lock:
                fake.bodies.append(body)
                fake.headers.append(dict(self.headers))
                fake.open += 1
                fake.most_open = max(fake.most_open, fake.open)
            time.sleep(fake.slow)
            try:
                self._answer(prompt, fake.faults.get(prompt, ""))
            except OSError:
                pass
            finally:
                with fake.lock:
                    fake.open -= 1

        def _answer(self, prompt: str, fault: str) -> None:
            if fault == "status":
                self.send_error(500)
                return
            if fault == "redirect":
                self.send_response(307)
                self.send_header("Location", "http://127.0.0.1:9/v1/chat/completions")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            accepted, cached = fake.decode(prompt)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            if fault == "empty":
                self.wfile.write(b"data: [DONE]\n\n")
                return
            if fault == "drip":
                for _ in range(200):  # never a whole line
                    self.wfile.write(b"x")
                    time.sleep(0.1)
                return
            for word in ("Hello", " world" if not (cached and fake.drifts) else " there"):
                choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
                self._event({"id": "c-1", "choices": [choice]})
            if fault == "cut":
                return
            if fault == "garbage":
                self.wfile.write(b"data: {broken\n\n")
                return
            if fault == "deep":
                self.wfile.write(b"data: " + b"[" * 100_000 + b"\n\n")
                return
            if fault == "long":
                self.wfile.write(b"data: " + b"z" * (9 * 2**20) + b"\n\n")
                return
            if fault == "object":
                self._event({"object": "error", "message": "out of memory"})
                self.wfile.write(b"data: [DONE]\n\n")
                return
            if fault == "error":
                self._event({"error": {"message": "out of memory"}})
                return
            self._event({"id": "c-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
            tokens = 1 + len(accepted) + sum(accepted)
            usage = {
                "prompt_tokens": 7,
                "completion_tokens": tokens,
                "prompt_tokens_details": {"cached_tokens": 6 if cached else 0},
            }
            stats = {
                "mean_acceptance_length": 1 + sum(accepted) / len(accepted),
                "acceptance_histogram": [accepted.count(j) for j in range(K + 1)],
                "num_spec_steps": len(accepted),
                "num_accepted_draft_tokens": sum(accepted),
                "num_draft_tokens": K * len(accepted),
                "num_spec_tokens": K,
            }
            metrics = {"metrics": {"speculative_decoding": stats}} if fake.per_request else {}
            self._event({"id": "c-1", "choices": [], "usage": usage, **metrics})
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, value: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")

        def _send(self, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
