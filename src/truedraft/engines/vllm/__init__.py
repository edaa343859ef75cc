"""The plugin that vLLM loads from the entry point group `vllm.general_plugins` (`docs/vllm.md`)."""

from truedraft.engines.vllm.plugin import register

__all__ = ["register"]
