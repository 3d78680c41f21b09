package org.arrowipc.spark

import java.nio.{ByteBuffer, ByteOrder}
import org.arrowipc.spark.ArrowIpcException.{Format, Limit}
import org.arrowipc.spark.Verifier._

/**
 * Checks a FlatBuffer before Arrow Java's classes follow its offsets: they read whatever an offset points to, and
 * return defaults for the fields that a broken table seems to lack.
 */
private[spark] final class Verifier private (buffer: ByteBuffer) {
  private[this] val bytes = buffer.slice().order(ByteOrder.LITTLE_ENDIAN)
  private[this] val size = bytes.limit
  /** How many tables may still be visited: each has an offset of 4 bytes, unless tables are shared. */
  private[this] var left = size / 4
  /** The bytes that vectors and strings may still take: 4 times the buffer's, as writers may share some of them. */
  private[this] var room = 4L * size

  private def root(kind: Table): Unit = {
    Format.unless(size >= 8, "%d bytes of metadata hold no %s table", size, kind.name)
    table(bytes.getInt(0), kind, 0)
  }

  private def table(at: Int, kind: Table, depth: Int): Unit = {
    left -= 1
    Limit.unless(left >= 0, Shared)
    Limit.unless(depth <= MostDepth || (kind ne Column),
      "the schema has more than %d levels of nested types", ReadOptions.DEPTH)
    prove(at >= 4 && (at & 3) == 0 && at <= size - 4, kind, at)
    val start = at.toLong - bytes.getInt(at)
    prove(start >= 0 && (start & 1) == 0 && start <= size - 4, kind, at)
    val vtable = start.toInt
    val slots = short(vtable)
    val own = short(vtable + 2)
    prove(slots >= 4 && (slots & 1) == 0 && slots <= size - vtable && own >= 4 && own <= size - at, kind, at)
    var i = 0
    while (i < kind.fields.length) {
      val field = kind.fields(i)
      val offset = if (2 * i + 6 > slots) 0 else short(vtable + 2 * i + 4)
      if (offset == 0) Format.unless(!field.required, "a %s table has no %s", kind.name, field.name)
      else {
        val width = field.width
        prove(offset >= 4 && offset <= own - width && (at + offset & math.min(width, 4) - 1) == 0, kind, at)
        follow(at + offset, field, if (i == 0) 0 else tag(at, vtable + 2 * i + 2), kind, depth)
      }
      i += 1
    }
  }

  /** The type tag of a union, which is the field before it; 0 if that field is absent. */
  private def tag(table: Int, slot: Int): Int = short(slot) match {
    case 0 => 0
    case offset => bytes.get(table + offset) & 255
  }

  private def follow(place: Int, field: Field, tag: Int, kind: Table, depth: Int): Unit = field match {
    case _: Scalar =>
    case one: One => table(target(place, kind), one.table, depth + 1)
    case union: Union =>
      val known = 0 < tag && tag < union.members.length
      Format.unless(known, "a %s table has the unknown %s %d", kind.name, union.name, tag)
      table(target(place, kind), union.members(tag), depth + 1)
    case items: Items => vector(place, items.each, kind)
    case many: Many =>
      val first = vector(place, 4, kind)
      val end = first + 4 * bytes.getInt(first - 4)
      for (at <- first until end by 4) table(target(at, kind), many.table(), depth + 1)
  }

  /** Where the offset at `place` points to; at least 4 bytes are there. */
  private def target(place: Int, kind: Table): Int = {
    val found = place + (bytes.getInt(place) & 0xffffffffL)
    prove(place < found && found <= size - 4, kind, place)
    found.toInt
  }

  /** Where the first element of a vector is. */
  private def vector(place: Int, each: Int, kind: Table): Int = {
    val at = target(place, kind)
    val count = bytes.getInt(at)
    prove((at & 3) == 0 && 0 <= count && count <= (size - at - 4) / each, kind, place)
    room -= count * each
    Limit.unless(room >= 0, Shared)
    at + 4
  }

  private def short(at: Int): Int = bytes.getShort(at) & 0xffff

  private def prove(good: Boolean, kind: Table, at: Int): Unit =
    if (!good) throw new Format(s"a ${kind.name} table of $size bytes of metadata leads out of them, at byte $at")
}

private[spark] object Verifier {
  def message(bytes: ByteBuffer): Unit = new Verifier(bytes).root(Message)

  def footer(bytes: ByteBuffer): Unit = new Verifier(bytes).root(Footer)

  private val Shared = "the metadata describes more than its bytes hold: its parts are shared"
  /** The depth of the deepest fields: Message or Footer has depth 0, Schema 1, its fields 2. */
  private val MostDepth = ReadOptions.DEPTH + 1

  private final class Table(val name: String, val fields: Field*)

  /** A field of a table: `width` bytes, which may be an offset. */
  private sealed abstract class Field(val width: Int, val name: String, val required: Boolean)
  private final class Scalar(width: Int) extends Field(width, "", false)
  private final class One(name: String, val table: Table, required: Boolean = false) extends Field(4, name, required)
  private final class Union(name: String, val members: Array[Table]) extends Field(4, name, true)
  /** A vector of scalars or structs, or a string. */
  private final class Items(name: String, val each: Int, required: Boolean = false) extends Field(4, name, required)
  private final class Many(name: String, val table: () => Table, required: Boolean = false)
      extends Field(4, name, required)

  private val I8 = new Scalar(1)
  private val I16 = new Scalar(2)
  private val I32 = new Scalar(4)
  private val I64 = new Scalar(8)

  private val Pair =
    new Table("KeyValue", new Items("key", 1, required = true), new Items("value", 1, required = true))
  private val Pairs = new Many("custom_metadata", () => Pair)
  private val Int = new Table("Int", I32, I8)

  /** The members of Type by their tags. */
  private val Types: Array[Table] = {
    val known = Map(
      2 -> Int,
      3 -> new Table("FloatingPoint", I16),
      7 -> new Table("Decimal", I32, I32, I32),
      8 -> new Table("Date", I16),
      9 -> new Table("Time", I16, I32),
      10 -> new Table("Timestamp", I16, new Items("timezone", 1)),
      11 -> new Table("Interval", I16),
      14 -> new Table("Union", I16, new Items("typeIds", 4)),
      15 -> new Table("FixedSizeBinary", I32),
      16 -> new Table("FixedSizeList", I32),
      17 -> new Table("Map", I8),
      18 -> new Table("Duration", I16))
    Array.tabulate(27)(tag => known.getOrElse(tag, new Table("type")))
  }

  private val Encoding = new Table("DictionaryEncoding", I64, new One("indexType", Int), I8, I16)
  private lazy val Column: Table = new Table("Field",
    new Items("name", 1), I8, I8, new Union("type", Types), new One("dictionary", Encoding),
    new Many("children", () => Column), Pairs)
  private val Schema =
    new Table("Schema", I16, new Many("fields", () => Column, required = true), Pairs, new Items("features", 8))

  private val Compression = new Table("BodyCompression", I8, I8)
  private val Batch = new Table("RecordBatch", I64, new Items("nodes", 16), new Items("buffers", 16),
    new One("compression", Compression), new Items("variadicBufferCounts", 8))
  private val Dictionary = new Table("DictionaryBatch", I64, new One("data", Batch, required = true), I8)
  private val Headers = Array(new Table("nothing"), Schema, Dictionary, Batch, new Table("Tensor"),
    new Table("SparseTensor"))
  private val Message = new Table("Message", I16, I8, new Union("header", Headers), I64, Pairs)
  private val Footer = new Table("Footer", I16, new One("schema", Schema, required = true),
    new Items("dictionaries", 24), new Items("recordBatches", 24), Pairs)
}
