from hypothesis import given
from hypothesis import strategies as st

from truedraft.models.visibility import block_visibility


@given(
    st.integers(0, 20),
    st.integers(1, 6),
    st.one_of(st.none(), st.integers(1, 12)),
    st.sampled_from(["query", "anchor"]),
    st.booleans(),
    st.integers(0, 1),
    st.data(),
)
def test_mask_is_the_rule_spelt_out(anchor, width, window, rule, causal, extra, data):
    import torch

    rows = anchor + extra
    valid = data.draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=rows, max_size=rows)))
    flags = None if valid is None else torch.tensor(valid, dtype=torch.bool)
    first, mask = block_visibility(anchor, rows, width, window, rule, causal, flags)

    def visible(slot, key, in_block):
        query, position = anchor + slot, anchor + key if in_block else key
        if in_block and causal and key > slot:
            return False
        if not in_block and valid is not None and not valid[key]:
            return False
        if window is None:
            return True
        if rule == "query":
            return query - position < window and position - query < window
        return in_block or position >= anchor - window

    for slot in range(width):
        for key in range(rows):
            seen = key >= first and (mask is None or bool(mask[slot, key - first]))
            assert seen == visible(slot, key, False)
        for key in range(width):
            assert (mask is None or bool(mask[slot, rows - first + key])) == visible(slot, key, True)
