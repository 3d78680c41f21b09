"""Row-major copies of elements at strides; compiled modules use the rest of this one."""

class Gathered:
    @property
    def nbytes(self) -> int: ...
