"""Commands in this process, which takes a hundredth of the time of one of their own (`helpers.terminal`)."""

from __future__ import annotations

import contextlib
import io

from helpers.terminal import Outcome


def run(*arguments: object) -> Outcome:
    from arrowipc.cli.app import run as called

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = called([str(each) for each in arguments])
    return Outcome(code, out.getvalue(), err.getvalue())
