"""Excerpts of public logs (shared/facts/field-log.md §7, names replaced there), with what they say."""

VLLM_103 = (
    "(APIServer pid=1) INFO 05-06 06:11:23 [metrics.py:101] SpecDecoding metrics: Mean acceptance "
    "length: 1.03, "
    "Accepted throughput: 2.50 tokens/s, Drafted throughput: 365.14 tokens/s, Accepted: 25 tokens, "
    "Drafted: 3652 "
    "tokens, Per-position acceptance rate: 0.027, 0.000, 0.000, 0.000, Avg Draft acceptance rate: 0.7%"
)
VLLM_293 = (
    "(APIServer pid=1) INFO 08-05 12:25:13 [metrics.py:120] SpecDecoding metrics: Mean acceptance "
    "length: 2.93, "
    "Accepted throughput: 10.60 tokens/s, Drafted throughput: 38.50 tokens/s, Accepted: 106 tokens, "
    "Drafted: 385 "
    "tokens, Per-position acceptance rate: 0.691, 0.418, 0.382, 0.182, 0.127, 0.073, 0.055, Avg "
    "Draft acceptance "
    "rate: 27.5%"
)
VLLM_NEIGHBOUR = (
    "(APIServer pid=1) INFO 08-05 12:25:13 [loggers.py:310] Engine 000: Avg prompt throughput: "
    "1436.3 tokens/s, Avg "
    "generation throughput: 93.9 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: "
    "36.1%, Prefix "
    "cache hit rate: 27.4%"
)
VLLM_V0 = (
    "Speculative metrics: Draft acceptance rate: 0.607, System efficiency: 0.510, Number of "
    "speculative tokens: 4, "
    "Number of accepted tokens: 32594, Number of draft tokens: 53716, Number of emitted tokens: 34244."
)
VLLM_EXAMPLE = """\
total_num_output_tokens: 200
num_drafts: 65
num_draft_tokens: 260
num_accepted_tokens: 136
mean acceptance length: 3.09
--------------------------------------------------
acceptance at token 0: 0.74
acceptance at token 1: 0.51
"""
VLLM_BENCH = """\
---------------Speculative Decoding---------------
Acceptance rate (%):                     55.33
Acceptance length:                       2.66
Drafts:                                  1000
Draft tokens:                            3000
Accepted tokens:                         1660
Per-position acceptance (%):
  Position 0:                            71.00
  Position 1:                            53.00
  Position 2:                            42.00
==================================================
"""
VLLM_PROMETHEUS = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 1000.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 3000.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 1660.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 710.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 530.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 420.0
"""
VLLM_REQUEST = (
    '{"metrics": {"speculative_decoding": {"mean_acceptance_length": 1.2325581395348837, '
    '"draft_acceptance_rate": '
    '0.07751937984496124, "acceptance_histogram": [39, 1, 0, 3], "num_spec_steps": 43, '
    '"num_accepted_draft_tokens": '
    '10, "num_draft_tokens": 129, "num_spec_tokens": 3}}}'
)
SGLANG_104 = (
    "[2025-11-19 15:25:25] Decode batch, #running-req: 1, #token: 353, token usage: 0.00, accept "
    "len: 1.04, accept "
    "rate: 0.04, cuda graph: True, gen throughput (token/s): 41.96, #queue-req: 0,"
)
SGLANG_167 = (
    "[2026-08-14 14:02:47 TP0] Decode batch, #running-req: 3, #token: 266624, token usage: 0.43, "
    "accept len: 1.67, "
    "accept rate: 0.13, pre-allocated usage: 0.22, #prealloc-req: 0, #transfer-req: 1, "
    "#retracted-req: 0, cuda "
    "graph: True, gen throughput (token/s): 183.10, #queue-req: 0"
)
SGLANG_GAUGES = """\
sglang:spec_accept_length{dp_rank="0",engine_type="unified",model_name="m",tp_rank="0"} 1.55
sglang:spec_accept_rate{dp_rank="0",engine_type="unified",model_name="m",tp_rank="0"} 0.55
"""
SGLANG_META = (
    '{"meta_info": {"id": "r", "completion_tokens": 106, "spec_accept_rate": 0.2930232558139535, '
    '"spec_accept_length": 2.4651162790697674, "spec_num_correct_drafts": 63, '
    '"spec_num_proposed_drafts": 215, '
    '"spec_verify_ct": 43, "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3]}}'
)
LLAMA_REQUEST = (
    "draft acceptance = 0.62008 ( 1797 accepted /  2898 generated), mean acceptance length =  2.24, "
    "acceptance rate "
    "per position = (0.727, 0.513)"
)
LLAMA_TOTAL = (
    "statistics draft-dflash: #gen drafts = 691, #acc drafts = 291, #gen tokens = 2064, #acc tokens = 526"
)
LLAMA_EXAMPLE = """\
n_drafted = 430
n_accept  = 427
accept    = 99.302%
"""
