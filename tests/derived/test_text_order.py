"""Many texts are sorted by their bytes, as Python sorts them."""

import random

import pytest
from helpers.processes import rounds

import arrowipc as ipc


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"])
@pytest.mark.parametrize("seed", range(rounds(8, 200)))
def test_texts_are_sorted_as_their_bytes(kind, seed):
    chance = random.Random(seed)
    alphabet = ["ab", "\0a", "abcdefgh", "a\u00e9\u20ac\U0001f600"][seed % 4]
    parts = [*alphabet[:2], *("".join(chance.choices(alphabet, k=8)) for _ in range(3))]
    same = chance.choice([0, 5, 8, 60, 600]) * alphabet[0]
    longest = chance.choice([6, 8, 12, 40])
    words = [same + "".join(chance.choices(parts, k=chance.randrange(longest))) for _ in range(1000)]
    values = words if "string" in kind else [word.encode() for word in words]
    rows = ipc.table({"x": ipc.array([*values, None, *values], kind), "i": range(2 * len(values) + 1)})
    up = rows.sort_by(["x"])
    assert up["x"].to_pylist() == [*sorted(values + values), None]
    numbers = up["i"].to_pylist()
    assert all(a < b for a, b, x, y in zip(numbers, numbers[1:], up["x"], up["x"][1:], strict=False) if x == y), (
        "stable"
    )
    assert rows.sort_by([("x", "descending", "at_start")])["x"].to_pylist() == [
        None,
        *sorted(values + values, reverse=True),
    ]
