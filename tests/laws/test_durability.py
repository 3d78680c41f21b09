"""kill -9 at any moment: what was there is there, or what was to come, complete; nothing whole is lost.

Writers are children of a process of their own, killed at moments such that a third comes to its end.
What a killed writer leaves beside the destination is recovered, too: exactly the batches that its bytes hold.
"""

import json
from pathlib import Path

import pytest
from helpers.processes import printed, rounds, run_function
from laws import killed_writers

KILLS = rounds(24, 100)

# AddressSanitizer makes forks and writes so slow that hardly any child would be killed in the middle.
pytestmark = [pytest.mark.nosanitize, pytest.mark.campaign]


@pytest.mark.parametrize("kind", killed_writers.KINDS)
def test_a_killed_process_leaves_the_old_or_the_new(tmp_path: Path, kind: str) -> None:
    seen = json.loads(printed(run_function(killed_writers.run, kind, tmp_path, KILLS, timeout=300)))
    print(f"{kind}: {KILLS} kills: {seen}")
    assert seen["old"] + seen["new"] + seen["absent"] == KILLS
    # The law is not empty: some were killed before the end, some behind it, and some left a part.
    # (Of a few kills all may fall on one side, whatever the machine does.)
    assert seen["old"] + seen["absent"] > KILLS // 20 or KILLS < 10
    assert seen["new"] > 0 or KILLS < 50
    assert seen["left"] > KILLS // 50
