package org.arrowipc.spark

import java.{util => ju}

import scala.collection.mutable

import org.apache.arrow.vector.types.{DateUnit, IntervalUnit, TimeUnit, UnionMode}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field}
import org.apache.arrow.vector.types.pojo.ArrowType.{ArrowTypeID => Id}

import org.arrowipc.spark.Plan._

/** One field of a schema: its layout, and which nodes and buffers of a message are its own. */
private[spark] final class Plan private (
    val field: Field, val path: String, whole: Whole, dictionaries: mutable.Map[Long, Whole], values: Boolean) {
  private[this] val encoded = field.getDictionary != null && !values
  /** Of the values; of the indices where the field is dictionary-encoded. */
  val `type`: ArrowType = if (encoded) field.getDictionary.getIndexType else stored(field)
  val layout: Layout = layoutOf(`type`, path)
  /** Bytes of a value, or elements of a list of fixed size. */
  val width: Int = {
    val narrow = field.getMetadata.get(Metadata.WIDTH)
    if (narrow == null || encoded) widthOf(`type`, path) else narrow.toInt
  }
  /** Which node and buffers are the first of its own: how many there are before them. */
  val first: Counts = whole.take(layout)
  val children: ju.List[Plan] = new ju.ArrayList
  /** The dictionary's own message; null where there is none. */
  val dictionary: Whole = if (encoded) dictionaries.getOrElseUpdate(dictionaryId(), new Whole) else null
  private var isWanted = false

  if (!encoded) {
    field.getChildren.forEach { child =>
      children.add(new Plan(child, s"$path.${name(child)}", whole, dictionaries, false))
    }
    checkChildren()
  } else if (dictionary.columns.isEmpty) {
    dictionary.columns.add(new Plan(field, path, dictionary, dictionaries, true))
  } else if (!same(dictionary.columns.get(0).field, field)) {
    throw new ArrowIpcException.Unsupported(
      s"column '$path' shares a dictionary with a column of another type; write it with a dictionary of its own")
  }

  /** Which dictionary a field refers to. */
  def dictionaryId(): Long = field.getDictionary.getId

  /** Whether its buffers are read. */
  def wanted: Boolean = isWanted

  def want(): Plan = {
    isWanted = true
    this
  }

  private def checkChildren(): Unit = {
    val expected = layout match {
      case Layout.LIST32 | Layout.LIST64 | Layout.LIST_VIEW32 | Layout.LIST_VIEW64 | Layout.FIXED_LIST => 1
      case Layout.RUN_END => 2
      case Layout.STRUCT | Layout.SPARSE | Layout.DENSE => children.size
      case _ => 0
    }
    val good = children.size == expected && (`type` match {
      case _: ArrowType.Map =>
        val entries = children.get(0)
        entries.layout == Layout.STRUCT && entries.children.size == 2 && entries.dictionary == null
      case _: ArrowType.RunEndEncoded =>
        val ends = children.get(0)
        ends.dictionary == null && ends.width > 1 && (ends.`type` match {
          case int: ArrowType.Int => int.getIsSigned
          case _ => false
        })
      case union: ArrowType.Union =>
        val found = codes(union, expected)
        found.length == expected && found.forall(code => 0 <= code && code < 128) && found.distinct.length == expected
      case _ => true
    })
    if (!good) throw new ArrowIpcException.Format(s"column $path: children do not fit its type ${`type`}")
  }
}

private[spark] object Plan {
  /** A physical layout of the columnar format: how many buffers it has, and whether the first is a bitmap. */
  final class Layout private[Plan] (val buffers: Int, bitmap: Boolean) {
    def hasValidity(): Boolean = bitmap
  }

  object Layout {
    val NULL, RUN_END = new Layout(0, false)
    val SPARSE = new Layout(1, false)
    val DENSE = new Layout(2, false)
    val STRUCT, FIXED_LIST = new Layout(1, true)
    val BITS, FIXED, VIEW, LIST32, LIST64 = new Layout(2, true)
    val VAR32, VAR64, LIST_VIEW32, LIST_VIEW64 = new Layout(3, true)
  }

  /** How many of each a message has: all, or those before a field's own. */
  final case class Counts(nodes: Int, buffers: Int, views: Int, unions: Int)

  /** What one kind of message holds: that of the schema, or that of a dictionary. */
  final class Whole {
    val columns: ju.List[Plan] = new ju.ArrayList
    private var counts = Counts(0, 0, 0, 0)

    def total: Counts = counts

    private[Plan] def take(layout: Layout): Counts = {
      val before = counts
      val view = if (layout == Layout.VIEW) 1 else 0
      val union = if (layout == Layout.SPARSE || layout == Layout.DENSE) 1 else 0
      counts = Counts(before.nodes + 1, before.buffers + layout.buffers, before.views + view, before.unions + union)
      before
    }
  }

  /** The plan of all columns of a schema. */
  def of(fields: java.lang.Iterable[Field]): Whole = {
    val whole = new Whole
    val dictionaries = mutable.HashMap.empty[Long, Whole]
    fields.forEach(field => whole.columns.add(new Plan(field, name(field), whole, dictionaries, false)))
    whole
  }

  def name(field: Field): String = if (field.getName == null) "" else field.getName

  def stored(field: Field): ArrowType = field.getType match {
    case extension: ArrowType.ExtensionType => extension.storageType
    case plain => plain
  }

  private def same(one: Field, other: Field) = stored(one) == stored(other) && one.getChildren == other.getChildren

  /** The type codes of a union's members, which are their numbers where the schema does not say. */
  def codes(union: ArrowType.Union, members: Int): Array[Int] =
    if (union.getTypeIds == null) Array.range(0, members) else union.getTypeIds

  private def layoutOf(kind: ArrowType, path: String): Layout = kind.getTypeID match {
    case Id.Null => Layout.NULL
    case Id.Bool => Layout.BITS
    case Id.Int | Id.FloatingPoint | Id.Decimal | Id.FixedSizeBinary => Layout.FIXED
    case Id.Date | Id.Time | Id.Timestamp | Id.Duration | Id.Interval => Layout.FIXED
    case Id.Utf8 | Id.Binary => Layout.VAR32
    case Id.LargeUtf8 | Id.LargeBinary => Layout.VAR64
    case Id.Utf8View | Id.BinaryView => Layout.VIEW
    case Id.List | Id.Map => Layout.LIST32
    case Id.LargeList => Layout.LIST64
    case Id.ListView => Layout.LIST_VIEW32
    case Id.LargeListView => Layout.LIST_VIEW64
    case Id.FixedSizeList => Layout.FIXED_LIST
    case Id.Struct => Layout.STRUCT
    case Id.Union =>
      if (kind.asInstanceOf[ArrowType.Union].getMode == UnionMode.Sparse) Layout.SPARSE else Layout.DENSE
    case Id.RunEndEncoded => Layout.RUN_END
    case _ => throw new ArrowIpcException.Unsupported(s"column '$path' has the type $kind, which Spark cannot hold")
  }

  private def widthOf(kind: ArrowType, path: String): Int = {
    def width(bytes: Int, good: Boolean): Int =
      if (good) bytes else throw new ArrowIpcException.Format(s"column $path: there is no type $kind")
    kind match {
      case int: ArrowType.Int => width(int.getBitWidth / 8, Set(8, 16, 32, 64)(int.getBitWidth))
      case float: ArrowType.FloatingPoint => 2 << float.getPrecision.getFlatbufID // of 0, 1 and 2
      case decimal: ArrowType.Decimal =>
        width(decimal.getBitWidth / 8, Set(128, 256)(decimal.getBitWidth) && decimal.getPrecision > 0)
      case date: ArrowType.Date => if (date.getUnit == DateUnit.DAY) 4 else 8
      case time: ArrowType.Time =>
        val long = time.getUnit == TimeUnit.MICROSECOND || time.getUnit == TimeUnit.NANOSECOND
        width(time.getBitWidth / 8, time.getBitWidth == (if (long) 64 else 32))
      case _: ArrowType.Timestamp | _: ArrowType.Duration => 8
      case interval: ArrowType.Interval => interval.getUnit match {
        case IntervalUnit.YEAR_MONTH => 4
        case IntervalUnit.DAY_TIME => 8
        case _ => 16
      }
      case binary: ArrowType.FixedSizeBinary => width(binary.getByteWidth, binary.getByteWidth >= 0)
      case list: ArrowType.FixedSizeList => width(list.getListSize, list.getListSize >= 0)
      case _ => 0
    }
  }
}
