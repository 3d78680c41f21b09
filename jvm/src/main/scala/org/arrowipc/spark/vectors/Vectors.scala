package org.arrowipc.spark
package vectors

import scala.collection.mutable
import org.apache.spark.sql.types.{DataType, Decimal, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Vectors of layouts that Spark reads in place: numbers, bits, texts, lists, structs, and rows of other vectors. */
private[spark] object Vectors {
  /** A vector with a validity bitmap of its own. */
  abstract class Leaf(target: DataType, column: Column) extends Vector(target, column.length) {
    private[this] val validity = column.validity()

    override final def isNullAt(row: Int): Boolean =
      validity != 0 && (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0

    override protected final def countNulls(): Int = column.nulls.toInt
  }

  /** Values of a fixed width in the JVM's byte order and form, or the part of each that begins at byte `member`. */
  class Fixed(target: DataType, column: Column, member: Int) extends Leaf(target, column) {
    private[this] val base = column.address(1) + member
    private[this] val stride = column.plan.width.toLong

    protected final def at(row: Int): Long = base + stride * row

    override def getByte(row: Int): Byte = Platform.getByte(null, at(row))
    override def getShort(row: Int): Short = Platform.getShort(null, at(row))
    override def getInt(row: Int): Int = Platform.getInt(null, at(row))
    override def getLong(row: Int): Long = Platform.getLong(null, at(row))
    override def getFloat(row: Int): Float = Platform.getFloat(null, at(row))
    override def getDouble(row: Int): Double = Platform.getDouble(null, at(row))
    override def getBinary(row: Int): Array[Byte] = if (isNullAt(row)) null else bytes(at(row), stride.toInt)
    override def getUTF8String(row: Int): UTF8String =
      if (isNullAt(row)) null else UTF8String.fromAddress(null, at(row), stride.toInt)
  }

  final class Bits(target: DataType, column: Column) extends Leaf(target, column) {
    private[this] val data = column.address(1)

    override def getBoolean(row: Int): Boolean = (Platform.getByte(null, data + (row >> 3)) >> (row & 7) & 1) != 0
  }

  /** Text and binary, by offsets or as views. */
  final class Texts(target: DataType, column: Column) extends Leaf(target, column) {
    /** Bytes of an offset, or of a view. */
    private[this] val width = column.plan.layout match {
      case Plan.Layout.VAR32 => 4
      case Plan.Layout.VAR64 => 8
      case _ => 16
    }
    private[this] val offsets = column.address(1)
    private[this] val data = if (width == 16) 0 else column.address(2)

    private def size(row: Int): Int = width match {
      case 4 => Platform.getInt(null, offsets + 4L * row + 4) - Platform.getInt(null, offsets + 4L * row)
      case 8 => math.min(column.count(row), Int.MaxValue).toInt
      case _ => Platform.getInt(null, offsets + 16L * row)
    }

    private def start(row: Int, size: Int): Long = width match {
      case 4 => data + Platform.getInt(null, offsets + 4L * row)
      case 8 => data + Platform.getLong(null, offsets + 8L * row)
      case _ =>
        val view = offsets + 16L * row
        if (size <= 12) view + 4
        else column.address(2 + Platform.getInt(null, view + 8)) + Platform.getInt(null, view + 12)
    }

    override def getUTF8String(row: Int): UTF8String = if (isNullAt(row)) null else {
      val found = size(row)
      UTF8String.fromAddress(null, start(row, found), found)
    }

    override def getBinary(row: Int): Array[Byte] = if (isNullAt(row)) null else {
      val found = size(row)
      bytes(start(row, found), found)
    }

    override def check(from: Int, to: Int): Unit = {
      var row = from
      while (width == 8 && row < to) {
        if (column.count(row) > Int.MaxValue && !isNullAt(row)) throw new ArrowIpcException.Unsupported(
          s"column '${column.plan.path}': a value is longer than Spark's 2 GiB")
        row += 1
      }
    }
  }

  private def bytes(address: Long, size: Int): Array[Byte] = {
    val found = new Array[Byte](size)
    Platform.copyMemory(null, address, found, Platform.BYTE_ARRAY_OFFSET, size)
    found
  }

  /** Lists and maps of any layout; the members are the elements, or the keys and the values. */
  final class Lists(target: DataType, column: Column, members: Array[Vector], required: Array[Boolean])
      extends Leaf(target, column) {
    override def getArray(row: Int): ColumnarArray =
      if (isNullAt(row)) null else new ColumnarArray(members(0), column.offset(row).toInt, column.count(row).toInt)

    override def getMap(row: Int): ColumnarMap =
      if (isNullAt(row)) null
      else new ColumnarMap(members(0), members(1), column.offset(row).toInt, column.count(row).toInt)

    override def getChild(ordinal: Int): ColumnVector = members(ordinal)

    override def check(from: Int, to: Int): Unit = {
      var first = Long.MaxValue
      var last = 0L
      if (column.plan.layout == Plan.Layout.LIST_VIEW32 || column.plan.layout == Plan.Layout.LIST_VIEW64) {
        var row = from
        while (row < to) {
          if (!isNullAt(row) && column.count(row) > 0) {
            first = math.min(first, column.offset(row))
            last = math.max(last, column.offset(row) + column.count(row))
          }
          row += 1
        }
      } else {
        first = column.offset(from)
        last = column.offset(to)
      }
      if (first < last) for (i <- members.indices) {
        members(i).check(first.toInt, last.toInt)
        if (required(i)) refuseNulls(members(i), first.toInt, last.toInt, column.plan.path)
      }
    }
  }

  def refuseNulls(vector: Vector, from: Int, to: Int, path: String): Unit = {
    var row = from
    while (row < to) {
      if (vector.isNullAt(row)) throw new ArrowIpcException.Usage(
        s"column '$path' holds nulls, and the schema says that it has none")
      row += 1
    }
  }

  final class Struct(target: DataType, column: Column, members: Array[Vector], required: Array[Boolean])
      extends Leaf(target, column) {
    override def getChild(ordinal: Int): ColumnVector = members(ordinal)

    override def check(from: Int, to: Int): Unit = for (i <- members.indices) {
      members(i).check(from, to)
      var row = from
      while (required(i) && row < to) {
        if (!isNullAt(row)) refuseNulls(members(i), row, row + 1, column.plan.path)
        row += 1
      }
    }
  }

  /** A union: it is never null itself, and all but one member of each row are null. */
  final class Members(target: DataType, rows: Long, var members: Array[Vector]) extends Vector(target, rows) {
    override def isNullAt(row: Int): Boolean = false
    override def getChild(ordinal: Int): ColumnVector = members(ordinal)
    override def check(from: Int, to: Int): Unit = members.foreach(_.check(from, to))
  }

  /** Only nulls: of the null type, or of a column that the file does not have. */
  final class Nulls(target: DataType, rows: Long) extends Vector(target, rows) {
    override def isNullAt(row: Int): Boolean = true
    override protected def countNulls(): Int = length

    override def getChild(ordinal: Int): ColumnVector =
      new Nulls(target.asInstanceOf[StructType].fields(ordinal).dataType, length)
  }

  /** Rows of other vectors: the place of a row is found at each access. */
  abstract class Elsewhere(target: DataType, rows: Long) extends Vector(target, rows) {
    /** The row of the vector [[in]] that has the value of a row; negative if it is null. */
    protected def at(row: Int): Int
    protected def in(row: Int): Vector

    override def isNullAt(row: Int): Boolean = {
      val found = at(row)
      found < 0 || in(row).isNullAt(found)
    }

    override def getBoolean(row: Int): Boolean = { val i = at(row); if (i < 0) false else in(row).getBoolean(i) }
    override def getByte(row: Int): Byte = { val i = at(row); if (i < 0) 0 else in(row).getByte(i) }
    override def getShort(row: Int): Short = { val i = at(row); if (i < 0) 0 else in(row).getShort(i) }
    override def getInt(row: Int): Int = { val i = at(row); if (i < 0) 0 else in(row).getInt(i) }
    override def getLong(row: Int): Long = { val i = at(row); if (i < 0) 0 else in(row).getLong(i) }
    override def getFloat(row: Int): Float = { val i = at(row); if (i < 0) 0 else in(row).getFloat(i) }
    override def getDouble(row: Int): Double = { val i = at(row); if (i < 0) 0 else in(row).getDouble(i) }

    override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = {
      val i = at(row)
      if (i < 0) null else in(row).getDecimal(i, precision, scale)
    }

    override def getUTF8String(row: Int): UTF8String = {
      val i = at(row)
      if (i < 0) null else in(row).getUTF8String(i)
    }

    override def getBinary(row: Int): Array[Byte] = { val i = at(row); if (i < 0) null else in(row).getBinary(i) }
    override def getArray(row: Int): ColumnarArray = { val i = at(row); if (i < 0) null else in(row).getArray(i) }
    override def getMap(row: Int): ColumnarMap = { val i = at(row); if (i < 0) null else in(row).getMap(i) }
  }

  /**
   * Rows that refer to rows of another vector: to values of a dictionary, of runs, or of a union's member; a negative
   * `index` is null. If `whole`, all values have been checked; else `check` checks those that rows refer to.
   */
  final class Taken(values: Vector, rows: Long, index: Int => Int, whole: Boolean)
      extends Elsewhere(values.dataType, rows) {
    override protected def at(row: Int): Int = index(row)
    override protected def in(row: Int): Vector = values

    override def getChild(ordinal: Int): ColumnVector =
      new Taken(values.getChild(ordinal).asInstanceOf[Vector], length, index, whole)

    override def check(from: Int, to: Int): Unit = {
      var row = from
      while (!whole && row < to) {
        val found = at(row)
        if (found >= 0) values.check(found, found + 1)
        row += 1
      }
    }
  }

  /** Several vectors one after the other, which begin at rows `starts`: a dictionary and its deltas, or batches. */
  final class Joined private (target: DataType, parts: Array[Vector], starts: Array[Int], rows: Long)
      extends Elsewhere(target, rows) {
    def this(target: DataType, parts: Array[Vector], rows: Long) =
      this(target, parts, parts.scanLeft(0)(_ + _.length).init, rows)

    private def part(row: Int): Int = {
      // If several parts start at the same row, all but the last of them are empty.
      var low = 0
      var high = starts.length - 1
      while (low < high) {
        val middle = low + high + 1 >>> 1
        if (starts(middle) <= row) low = middle else high = middle - 1
      }
      low
    }

    override protected def at(row: Int): Int = row - starts(part(row))
    override protected def in(row: Int): Vector = parts(part(row))

    /** The children are kept, because Spark asks for them again for each row. */
    private[this] val children = mutable.HashMap.empty[Int, Vector]

    override def getChild(ordinal: Int): ColumnVector = children.getOrElseUpdate(ordinal, {
      val found = parts.map(_.getChild(ordinal).asInstanceOf[Vector])
      new Joined(found(0).dataType, found, starts, length)
    })
  }
}
