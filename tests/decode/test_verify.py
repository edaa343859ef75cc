from hypothesis import given
from hypothesis import strategies as st

from truedraft.decode import conclude, verify_greedy

tokens = st.integers(0, 3)


def greedy(drafts, choices, stop, remaining):
    return conclude(drafts, *verify_greedy(drafts, choices), stop, remaining)


@given(st.lists(tokens, max_size=6), st.data(), st.frozensets(tokens, max_size=2), st.integers(1, 9))
def test_emits_what_one_token_at_a_time_would(drafts, data, stop, remaining):
    choices = data.draw(st.lists(tokens, min_size=len(drafts) + 1, max_size=len(drafts) + 1))
    verdict = greedy(drafts, choices, stop, remaining)
    expected, finish = [], None
    for i, choice in enumerate(choices):
        expected.append(choice)
        if choice in stop:
            finish = "stop"
        elif len(expected) == remaining:
            finish = "length"
        if finish or i == len(drafts) or drafts[i] != choice:
            break
    assert list(verdict.tokens) == expected
    assert verdict.finish == finish
    assert 0 <= verdict.accepted <= verdict.proposed <= len(drafts)
    assert verdict.accepted <= len(verdict.tokens) <= verdict.accepted + 1


def test_a_full_round_counts_all_drafts():
    verdict = greedy([5, 6, 7], [5, 6, 9, 9], frozenset(), 100)
    assert (verdict.tokens, verdict.proposed, verdict.accepted) == ((5, 6, 9), 3, 2)


def test_drafts_behind_a_stop_token_count_as_neither_proposed_nor_accepted():
    verdict = greedy([5, 0, 7], [5, 0, 7, 8], frozenset({0}), 100)
    assert (verdict.tokens, verdict.proposed, verdict.accepted, verdict.finish) == ((5, 0), 2, 2, "stop")


def test_a_stop_token_as_bonus_leaves_the_round_whole():
    verdict = greedy([5, 6], [5, 0, 1], frozenset({0}), 100)
    assert (verdict.tokens, verdict.proposed, verdict.accepted, verdict.finish) == ((5, 0), 2, 1, "stop")
