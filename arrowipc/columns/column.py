"""The methods that arrays and chunked arrays share, and the parts of nested and encoded arrays."""

from __future__ import annotations

from itertools import islice, pairwise

from arrowipc.arguments import Hints, check_flag, check_safe
from arrowipc.errors import LimitError, NotFoundError, UnsupportedError, UsageError
from arrowipc.options import with_advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, SupportsIndex

    import pandas as pd
    import polars as pl

    from arrowipc import datatypes as at
    from arrowipc.columns.array import Array
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.types import TypeLike

    class _Elements(Hints):
        """The members that each subclass defines itself."""

        __slots__ = ()

        @property
        def field(self) -> at.Field: ...
        def __len__(self) -> int: ...
        @property
        def null_count(self) -> int: ...
        def slice(self, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> Self: ...
        def take(self, indices: Any) -> Self: ...
        def to_pylist(self) -> list[Any]: ...
        def _arrays(self) -> list[Array]: ...
        def _whole(self) -> Array: ...
        def _each(self, change: Callable[[Array], Array]) -> Self: ...
        def _cut(self, array: Array) -> Self: ...
else:
    _Elements = Hints

# Names of type classes, because the module of the classes is imported only when somebody asks for types.
_OFFSETS = "List", "LargeList", "Map"
_VIEWS = "ListView", "LargeListView"
LISTS = (*_OFFSETS, *_VIEWS, "FixedSizeList")
#: Attributes that arrays of some types have.
OF_SOME = frozenset({"indices", "items", "keys", "offsets", "run_ends", "sizes", "values"})


class Column(_Elements):
    """Base of :class:`Array` and :class:`ChunkedArray`: elements of one type."""

    __slots__ = ()

    def _compared(self, other: object) -> Any:
        """Say what there is in place of ``column > value``; NumPy compares its own arrays and numbers with columns."""
        if hasattr(other, "__array__"):
            return NotImplemented
        raise TypeError("columns do not compare their elements: filter([(name, '>', value)]) of a table gives rows")

    __lt__ = _compared
    __le__ = _compared
    __gt__ = _compared
    __ge__ = _compared

    def filter(self, mask: Any) -> Self:
        """Return the elements where `mask` is true; parameters and errors are those of :meth:`RecordBatch.filter`."""
        from arrowipc.columns.array import mask_of
        from arrowipc.columns.take import selected_rows

        return self.take(selected_rows(mask_of(mask), len(self)))

    @with_advice
    def fill_null(self, value: Any) -> Self:
        """Return the elements with `value`, which must fit the type, in place of nulls."""
        from arrowipc.values.from_python import fill_null

        return self._each(lambda array: fill_null(array, value))

    @with_advice
    def cast(self, type: TypeLike, safe: bool = True) -> Self:
        """Return the elements as another type: numbers, text, binary, times of other units, lists, dictionaries.

        Values are converted exactly. Text becomes numbers and booleans, and back, as pyarrow has it. A value that
        does not fit is a UsageError that names its position (`safe` can only be True), as are types that are not
        cast here.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.Array.from_pylist([1, None]).cast("int8").type
        DataType(int8)
        """
        from arrowipc.datatypes import Dictionary
        from arrowipc.derived.casts import cast
        from arrowipc.types import as_type

        check_safe("cast", safe)
        if isinstance(target := as_type(type), Dictionary) and self.field.type != target:
            try:
                return self._cut(cast(self._whole(), target))
            except (LimitError, UnsupportedError):
                pass  # more than one array can hold: each chunk has a dictionary of its own
        return self._each(lambda array: cast(array, target))

    def dictionary_encode(self) -> Self:
        """Return the elements as indices (int32) into a dictionary of the distinct ones; encoded ones as they are.

        Chunks share one dictionary, unless they have more elements than one array can hold.
        """
        from arrowipc.datatypes import Dictionary, Int

        kind = self.field.type
        return self if isinstance(kind, Dictionary) else self.cast(Dictionary(Int(32, True), kind))

    def dictionary_decode(self) -> Self:
        """Return the elements of a dictionary-encoded column as plain ones; others as they are."""
        from arrowipc.datatypes import Dictionary
        from arrowipc.derived.dictionary_encode import decoded

        return self._each(decoded) if isinstance(self.field.type, Dictionary) else self

    def unique(self) -> Array:
        """Return the distinct elements, in the order of their first occurrence; null is one of them."""
        from arrowipc.derived.dictionary_encode import distinct_values

        return distinct_values(self)[0]

    def value_counts(self) -> Array:
        """Return the distinct elements and how often each is there, as structs of `values` and `counts` (int64).

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.array(["a", None, "a"]).value_counts().to_pylist()
        [{'values': 'a', 'counts': 2}, {'values': None, 'counts': 1}]
        """
        from arrowipc.derived.computed import value_counts

        return value_counts(self)

    def index(self, value: Any, start: int | None = None, end: int | None = None) -> int:
        """Return where the first element is that equals `value`, among those from `start` to `end`; -1: nowhere."""
        from arrowipc.derived.computed import index

        return index(self, value, start, end)

    def drop_null(self) -> Self:
        """Return the elements that are not null."""
        return self.filter(self.is_valid()) if self.null_count else self

    def is_nan(self) -> Self:
        """Return whether each number is NaN, as booleans; null where it is null."""
        from arrowipc.derived.computed import is_nan

        return self._each(is_nan)

    def is_valid(self) -> Self:
        """Return whether each element is not null, as booleans.

        As for :attr:`null_count`, the validity bitmap decides: nulls in dictionaries, in children of unions
        and in the values of runs do not count. LimitError: more elements than 2**24 plus 8 for each byte of the batch.
        """
        from arrowipc.columns.array import validity_array

        return self._each(lambda array: validity_array(array, 0))

    def is_null(self) -> Self:
        """Return whether each element is null; see :meth:`is_valid`."""
        from arrowipc.columns.array import validity_array

        return self._each(lambda array: validity_array(array, 255))

    def validate(self, *, full: bool = False) -> None:
        """Check the values; parameters and errors are those of :meth:`RecordBatch.validate`."""
        for batch in self._batches():
            batch.validate(full=full)

    def tolist(self) -> list[Any]:
        """Return the elements as Python values: :meth:`to_pylist` under NumPy's name."""
        return self.to_pylist()

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Array`` or a ``pyarrow.ChunkedArray`` over the same memory."""
        from arrowipc.values.libraries import to_arrow

        return to_arrow(self)

    def to_polars(self) -> pl.Series:
        """Return a ``polars.Series``."""
        from arrowipc.values.libraries import to_polars

        return to_polars(self)  # type: ignore[no-any-return]

    def to_pandas(self, **options: Any) -> pd.Series:
        """Return a ``pandas.Series``; see :meth:`RecordBatch.to_pandas`."""
        from arrowipc.values.to_pandas import to_pandas

        return to_pandas(self, options)

    def __repr__(self) -> str:
        from arrowipc.values.repr import array_text

        return array_text(self)

    def to_string(self) -> str:
        """Return the text that shows the first elements and the last: that of ``repr``."""
        return repr(self)

    def get_total_buffer_size(self) -> int:
        """Return the bytes of whole buffers, also for slices; buffers that chunks share count for each of them."""
        return sum(batch.nbytes for batch in self._batches())

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.get_total_buffer_size()

    def __arrow_c_schema__(self) -> object:
        """Export the field as an ``arrow_schema`` PyCapsule."""
        return self.field.__arrow_c_schema__()

    def _batches(self) -> list[RecordBatch]:
        """The arrays as batches of one column, in the same memory."""
        from arrowipc.columns.record_batch import batches_of

        return batches_of(self.field, self._arrays())


class Nested(Column):
    """The parts of lists, structs, dictionary-encoded and run-end encoded arrays, under pyarrow's names."""

    __slots__ = ()
    _of_some = OF_SOME

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in OF_SOME or hasattr(self, name)]

    @property
    def offsets(self: Any) -> Array:
        """Where each list begins in :attr:`values`, and where the last one ends (not of list views); no copy."""
        self._expect("offsets", _OFFSETS + _VIEWS)
        count = len(self) + self._is_of(_OFFSETS)
        return self._stored(self._counts(), [None, self.buffers()[1] or bytes(8)], count)  # type: ignore[no-any-return]

    @property
    def sizes(self: Any) -> Array:
        """How many elements each list of a list view has; no copy."""
        self._expect("sizes", _VIEWS)
        return self._stored(self._counts(), [None, self.buffers()[2]], len(self))  # type: ignore[no-any-return]

    @property
    def keys(self: Any) -> Array:
        """The keys of all maps, one map behind the other as :attr:`offsets` says; no copy."""
        self._expect("keys", ("Map",))
        return self.children[0].children[0]  # type: ignore[no-any-return]

    @property
    def items(self: Any) -> Array:
        """The items of all maps, one map behind the other as :attr:`offsets` says; no copy."""
        self._expect("items", ("Map",))
        return self.children[0].children[1]  # type: ignore[no-any-return]

    @property
    def run_ends(self: Any) -> Array:
        """Where each run of a run-end encoded array ends, counted from where its buffers begin; no copy."""
        self._expect("run_ends", ("RunEndEncoded",))
        return self.children[0]  # type: ignore[no-any-return]

    @property
    def indices(self: Any) -> Array:
        """The indices of a dictionary-encoded array into :attr:`dictionary`; no copy."""
        self._expect("indices", ("Dictionary",))
        return self._stored(self.type.index_type, self.buffers(), len(self))  # type: ignore[no-any-return]

    def member(self: Any, name: str) -> Array:
        """Return a member of structs by its name, null where the struct is; ``array[name]`` does the same."""
        self._expect("member()", ("Struct",))
        position = [field.name for field in self.type.fields]
        if position.count(name) != 1:
            raise NotFoundError(f"{position.count(name)} members are called {name!r}; there are {position[:50]}")
        return self.flatten()[position.index(name)]  # type: ignore[no-any-return]

    def value_lengths(self: Any) -> Array:
        """Return the number of elements of each list; null where the list is."""
        from arrowipc.values.from_python import build_array

        self._expect("value_lengths()", LISTS)
        if self._is_of(_VIEWS):
            lengths = self.sizes.to_pylist()
        else:
            lengths = [end - start for start, end in pairwise(self._starts())]
        valid = self.is_valid().to_pylist()
        return build_array([each if ok else None for each, ok in zip(lengths, valid, strict=True)], self._counts())

    def value_parent_indices(self: Any) -> Array:
        """Return the number of the list (int64) from which each element in :meth:`flatten` comes."""
        from arrowipc.datatypes import Int
        from arrowipc.values.from_python import build_array

        lengths = self.value_lengths().to_pylist()
        elements = self.flatten()
        elements.is_valid()  # this refuses more elements than the bytes of the array can stand for
        rows = (row for row, length in enumerate(lengths) for _ in range(length or 0))
        return build_array(list(islice(rows, len(elements))), Int(64, True))

    def flatten(self: Any, recursive: bool = False) -> Any:
        """Return the elements of all lists, in one array; or the members of structs, in a list of arrays.

        Elements of a null list are left out; members are null where the struct is. Other types are a UsageError.
        With `recursive`, elements that are lists are flattened too.
        """
        if recursive is not False and check_flag("recursive", recursive):
            self._expect("flatten(recursive=True)", LISTS)
            elements = self.flatten()
            return elements.flatten(True) if elements._is_of(LISTS) else elements
        from arrowipc.columns.array import list_span
        from arrowipc.columns.record_batch import batches_of
        from arrowipc.datatypes import Int, LargeList
        from arrowipc.values.from_python import build_array

        self._expect("flatten()", (*LISTS, "Struct"))
        children, is_struct, is_fixed = self.children, self._is_of(("Struct",)), self._is_of(("FixedSizeList",))
        if is_struct and self.field.nullable:
            children = [
                child if child.field.nullable else batches_of(child.field.with_nullable(True), [child])[0].column(0)
                for child in children
            ]
        if is_struct and not self.null_count:
            return children
        valid = self.is_valid()  # this refuses more elements than the bytes of the array can stand for
        if is_struct:
            rows = build_array([row if ok else None for row, ok in enumerate(valid)], Int(64, True))
            return [child.take(rows) for child in children]
        if self._is_of(_VIEWS):
            return self.cast(LargeList(self.type.value_field)).flatten()
        (elements,) = children
        first, last, hidden = (0, len(elements), self.null_count) if is_fixed else list_span(self)
        if not hidden:
            return elements.slice(first, last - first)
        elements.is_valid()
        bounds = zip(pairwise(self._starts()), valid, strict=True)
        return elements.take([row for (start, end), ok in bounds if ok for row in range(start, end)])

    def _stored(self, kind: Any, buffers: list[Any], count: int) -> Array:
        from arrowipc.columns.array import reinterpret

        return reinterpret(self, kind, buffers, count)

    def _starts(self: Any) -> list[int]:
        """Return where each list begins, and where the last one ends; of lists of fixed size, in `children`."""
        if self._is_of(("FixedSizeList",)):
            return [row * self.type.list_size for row in range(len(self) + 1)]
        return self.offsets.to_pylist() if len(self) else [0]

    def _counts(self: Any) -> at.Int:
        """The type of offsets and sizes."""
        from arrowipc.datatypes import Int

        return Int(64 if self._is_of(("LargeList", "LargeListView")) else 32, True)

    def _is_of(self: Any, kinds: tuple[str, ...]) -> bool:
        return type(self.type).__name__ in kinds

    def _expect(self: Any, name: str, kinds: tuple[str, ...]) -> None:
        if not self._is_of(kinds):
            text = f"an Array of {self.type} has no {name}"
            raise UsageError(text) if name.endswith(")") else AttributeError(text, name=name, obj=self)
