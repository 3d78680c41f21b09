"""What Spark says when something fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: Spark gives a Python process that plans ten seconds to start, which no setting changes. A busy machine needs more.
STARTED_TOO_LATE = "Python worker failed to connect back"


def failure(action: Callable[[], object]) -> str:
    """Return the message of the error that `action` must raise."""
    from pyspark.errors import PySparkException

    for _ in range(10):
        with pytest.raises(PySparkException) as caught:
            action()
        if STARTED_TOO_LATE not in str(caught.value):
            break
    return str(caught.value)
