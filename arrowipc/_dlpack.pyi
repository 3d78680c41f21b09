from typing import Any

from arrowipc._tensor import Tensor

def live_dlpack() -> int: ...
def export(
    tensor: Tensor,
    stream: object,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any: ...
