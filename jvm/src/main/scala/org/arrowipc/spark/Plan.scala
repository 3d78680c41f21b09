package org.arrowipc.spark

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.types.{DateUnit, IntervalUnit, TimeUnit, UnionMode}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field}
import org.apache.arrow.vector.types.pojo.ArrowType.ArrowTypeID
import org.arrowipc.spark.Metadata.fits
import org.arrowipc.spark.Plan._

/** One field of a schema: its layout, and which nodes and buffers of a message are its own. */
private[spark] final class Plan private (
    val field: Field, val path: String, whole: Whole, dictionaries: mutable.Map[Long, Whole], values: Boolean) {
  private[this] val encoded = field.getDictionary != null && !values
  /** The type of the values; of the indices if the field is dictionary-encoded. */
  val `type`: ArrowType = if (encoded) field.getDictionary.getIndexType else stored(field)
  private[this] val shape = shapeOf(`type`, path)
  val layout: Layout = shape._1
  /** Bytes of a value, or elements of a list of fixed size. */
  val width: Int = Option(field.getMetadata.get(Metadata.WIDTH)).filter(_ => !encoded).fold(shape._2)(_.toInt)
  /** How many nodes and buffers of a message precede those of this field. */
  val first: Counts = whole.take(layout)
  val children: Array[Plan] =
    if (encoded) Array.empty
    else field.getChildren.asScala
      .map(child => new Plan(child, s"$path.${name(child)}", whole, dictionaries, false)).toArray
  /** The plan of the dictionary's messages; null if the field has no dictionary. */
  val dictionary: Whole = if (encoded) dictionaries.getOrElseUpdate(dictionaryId, new Whole) else null
  /** Whether its buffers are read. */
  var wanted = false

  if (!encoded) checkChildren()
  else if (dictionary.columns.isEmpty) {
    dictionary.columns += new Plan(field, path, dictionary, dictionaries, true)
  } else if (!same(dictionary.columns(0).field, field)) {
    throw new ArrowIpcException.Unsupported(
      s"column '$path' shares a dictionary with a column of another type; write it with a dictionary of its own")
  }

  /** The id of the field's dictionary. */
  def dictionaryId: Long = field.getDictionary.getId

  private def checkChildren(): Unit = {
    val count = children.length
    val good = (layout.children == Layout.Any || layout.children == count) && (`type` match {
      case _: ArrowType.Map =>
        val entries = children(0)
        entries.layout == Layout.STRUCT && entries.children.length == 2 && entries.dictionary == null
      case _: ArrowType.RunEndEncoded =>
        val ends = children(0)
        ends.dictionary == null && Seq(16, 32, 64).exists(new ArrowType.Int(_, true) == ends.`type`)
      case union: ArrowType.Union =>
        val found = codes(union, count)
        found.length == count && found.forall(code => 0 <= code && code < 128) && found.distinct.length == count
      case _ => true
    })
    if (!good) throw new ArrowIpcException.Format(s"column $path: children do not fit its type ${`type`}")
  }
}

private[spark] object Plan {
  /** A layout of the columnar format: its numbers of buffers and children; whether the first buffer is a bitmap. */
  final class Layout private[Plan] (val buffers: Int, val hasValidity: Boolean, val children: Int = 0) {
    def isList: Boolean = children == 1
  }

  object Layout {
    private[Plan] val Any = -1
    val NULL = new Layout(0, false)
    val RUN_END = new Layout(0, false, 2)
    val SPARSE = new Layout(1, false, Any)
    val DENSE = new Layout(2, false, Any)
    val STRUCT = new Layout(1, true, Any)
    val FIXED_LIST = new Layout(1, true, 1)
    val BITS, FIXED, VIEW = new Layout(2, true)
    val LIST32, LIST64 = new Layout(2, true, 1)
    val VAR32, VAR64 = new Layout(3, true)
    val LIST_VIEW32, LIST_VIEW64 = new Layout(3, true, 1)
  }

  /** How many parts of each kind a message has: in all, or before those of one field. */
  final case class Counts(nodes: Int, buffers: Int, views: Int, unions: Int)

  /** The plan of one kind of message: of record batches, or of one dictionary's batches. */
  final class Whole {
    val columns = mutable.ArrayBuffer.empty[Plan]
    var total: Counts = Counts(0, 0, 0, 0)

    private[Plan] def take(layout: Layout): Counts = {
      val before = total
      val view = if (layout == Layout.VIEW) 1 else 0
      val union = if (layout == Layout.SPARSE || layout == Layout.DENSE) 1 else 0
      total = Counts(before.nodes + 1, before.buffers + layout.buffers, before.views + view, before.unions + union)
      before
    }
  }

  /** The plan of all columns of a schema. */
  def of(fields: java.lang.Iterable[Field]): Whole = {
    val whole = new Whole
    val dictionaries = mutable.HashMap.empty[Long, Whole]
    fields.forEach(field => whole.columns += new Plan(field, name(field), whole, dictionaries, false))
    whole
  }

  def name(field: Field): String = if (field.getName == null) "" else field.getName

  def stored(field: Field): ArrowType = field.getType match {
    case extension: ArrowType.ExtensionType => extension.storageType
    case plain => plain
  }

  private def same(one: Field, other: Field) = stored(one) == stored(other) && one.getChildren == other.getChildren

  /** Matches the types that hold the same values in several layouts. */
  final class Kinds private[Plan] (ids: ArrowTypeID*) {
    def unapply(kind: ArrowType): Boolean = ids.contains(kind.getTypeID)
  }

  val Texts = new Kinds(ArrowTypeID.Utf8, ArrowTypeID.LargeUtf8, ArrowTypeID.Utf8View)
  val Binaries =
    new Kinds(ArrowTypeID.Binary, ArrowTypeID.LargeBinary, ArrowTypeID.BinaryView, ArrowTypeID.FixedSizeBinary)
  val Lists = new Kinds(ArrowTypeID.List, ArrowTypeID.LargeList, ArrowTypeID.ListView, ArrowTypeID.LargeListView,
    ArrowTypeID.FixedSizeList)

  /** The type codes of a union's members: 0, 1, ... if the schema states none. */
  def codes(union: ArrowType.Union, members: Int): Array[Int] =
    if (union.getTypeIds == null) Array.range(0, members) else union.getTypeIds

  /** The layout of a type, and its width: bytes of a value, or elements of a list of fixed size. */
  private def shapeOf(kind: ArrowType, path: String): (Layout, Int) = {
    def fixed(width: Int, good: Boolean, layout: Layout = Layout.FIXED): (Layout, Int) =
      if (good) (layout, width) else throw new ArrowIpcException.Format(s"column $path: there is no type $kind")
    kind match {
      case _: ArrowType.Null => (Layout.NULL, 0)
      case _: ArrowType.Bool => (Layout.BITS, 0)
      case int: ArrowType.Int => fixed(int.getBitWidth / 8, Set(8, 16, 32, 64)(int.getBitWidth))
      case float: ArrowType.FloatingPoint => (Layout.FIXED, 2 << float.getPrecision.getFlatbufID) // ids are 0, 1, 2
      case decimal: ArrowType.Decimal =>
        fixed(decimal.getBitWidth / 8, 0 < decimal.getPrecision && fits(decimal.getPrecision, decimal.getBitWidth))
      case date: ArrowType.Date => (Layout.FIXED, if (date.getUnit == DateUnit.DAY) 4 else 8)
      case time: ArrowType.Time =>
        val long = time.getUnit == TimeUnit.MICROSECOND || time.getUnit == TimeUnit.NANOSECOND
        fixed(time.getBitWidth / 8, time.getBitWidth == (if (long) 64 else 32))
      case _: ArrowType.Timestamp | _: ArrowType.Duration => (Layout.FIXED, 8)
      case interval: ArrowType.Interval => interval.getUnit match {
        case IntervalUnit.YEAR_MONTH => (Layout.FIXED, 4)
        case IntervalUnit.DAY_TIME => (Layout.FIXED, 8)
        case _ => (Layout.FIXED, 16)
      }
      case binary: ArrowType.FixedSizeBinary => fixed(binary.getByteWidth, binary.getByteWidth >= 0)
      case list: ArrowType.FixedSizeList => fixed(list.getListSize, list.getListSize >= 0, Layout.FIXED_LIST)
      case _: ArrowType.Utf8 | _: ArrowType.Binary => (Layout.VAR32, 0)
      case _: ArrowType.LargeUtf8 | _: ArrowType.LargeBinary => (Layout.VAR64, 0)
      case _: ArrowType.Utf8View | _: ArrowType.BinaryView => (Layout.VIEW, 0)
      case _: ArrowType.List | _: ArrowType.Map => (Layout.LIST32, 0)
      case _: ArrowType.LargeList => (Layout.LIST64, 0)
      case _: ArrowType.ListView => (Layout.LIST_VIEW32, 0)
      case _: ArrowType.LargeListView => (Layout.LIST_VIEW64, 0)
      case _: ArrowType.Struct => (Layout.STRUCT, 0)
      case union: ArrowType.Union => (if (union.getMode == UnionMode.Sparse) Layout.SPARSE else Layout.DENSE, 0)
      case _: ArrowType.RunEndEncoded => (Layout.RUN_END, 0)
      case _ => throw new ArrowIpcException.Unsupported(s"column '$path' has the type $kind, which Spark cannot hold")
    }
  }
}
