"""What was made last is found again under an equal key, until newer things have taken its place."""

import random
import weakref

import pytest

import arrowipc as ipc
from arrowipc._core import Recent


@pytest.mark.parametrize("most", [1, 2, 8, 64])
def test_the_last_things_are_found_and_the_oldest_make_room(most: int) -> None:
    recent = Recent(most)
    kept: list[int] = []
    chance = random.Random(most)
    for _ in range(1000):
        key = chance.randrange(3 * most)
        found = recent.get(("key", key))
        if key in kept:
            assert found == [key]
        else:
            assert found is None
            recent.put(("key", key), [key])
            kept = [*kept, key][-most:]


def test_equal_marks_are_no_equal_keys() -> None:
    recent = Recent(8)
    recent.put(-1, "one")
    assert hash(-1) == hash(-2)
    assert recent.get(-2) is None
    recent.put(-2, "two")
    assert (recent.get(-1), recent.get(-2)) == ("one", "two")


def test_release_unused_forgets_them() -> None:
    recent = Recent(2)
    thing = {1}
    seen = weakref.ref(thing)
    recent.put("key", thing)
    del thing
    assert seen() is not None
    ipc.release_unused()
    assert seen() is None
    for i in range(3):
        recent.put(i, i)
    assert [recent.get(i) for i in range(3)] == [None, 1, 2]
