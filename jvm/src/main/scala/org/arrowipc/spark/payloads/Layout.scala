package org.arrowipc.spark
package payloads

import java.math.RoundingMode
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform.{BYTE_ARRAY_OFFSET => BASE}
import org.arrowipc.spark.ArrowIpcException.{Limit, Usage}

/** The values of one field: each is at the place `at(i)` of `holders(i)`, a row or an array of elements. */
private[payloads] final class Cells(
    val holders: Array[SpecializedGetters], places: Array[Int], place: Int, val count: Int) {
  def at(i: Int): Int = if (places == null) place else places(i)

  /** Whether a value is null; its holder is null if its parent is. */
  def isNull(i: Int): Boolean = holders(i) == null || holders(i).isNullAt(at(i))
}

/** Writes the values of one field and of its children; `numbers` are those of its node and its first buffer. */
private[payloads] abstract class Layout(numbers: (Int, Int)) {
  private val node = numbers._1
  /** The number of its first buffer. */
  protected val first: Int = numbers._2

  def write(draft: Draft, cells: Cells): Unit = {
    var nulls, i = 0
    while (i < cells.count) {
      if (cells.isNull(i)) nulls += 1
      i += 1
    }
    draft.node(node, cells.count, nulls)
    val place = if (nulls == 0) draft.end else Layout.bits(draft, cells.count, !cells.isNull(_))
    draft.buffer(first, place)
    values(draft, cells, nulls > 0)
  }

  /** Write the buffers after the validity bitmap; null rows may have any value. */
  protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit
}

private[payloads] object Layout {
  /** The layout of a type; `number` takes a field's count of buffers, and returns its numbers for [[Layout]]. */
  def of(dataType: DataType, path: String, invalidText: String, number: Int => (Int, Int)): Layout = {
    def below(dataType: DataType, name: String) = of(dataType, s"$path.$name", invalidText, number)
    dataType match {
      case udt: UserDefinedType[_] => of(udt.sqlType, path, invalidText, number)
      case NullType => new Nulls(number(0))
      case BooleanType => new Booleans(number(2))
      case ByteType => new Words(number(2), 1, (to, place, row, at) => to.bytes(place) = row.getByte(at))
      case ShortType => new Words(number(2), 2, (to, place, row, at) => to.putShort(place, row.getShort(at)))
      case IntegerType | DateType => new Words(number(2), 4, (to, place, row, at) => to.putInt(place, row.getInt(at)))
      case FloatType => new Words(number(2), 4, (to, place, row, at) => to.putFloat(place, row.getFloat(at)))
      case DoubleType => new Words(number(2), 8, (to, place, row, at) => to.putDouble(place, row.getDouble(at)))
      case decimal: DecimalType => new Words(number(2), 16, decimals(decimal))
      case BinaryType => new Binaries(number(3))
      case _: StringType | _: CharType | _: VarcharType => new Texts(number(3), path, invalidText)
      case struct: StructType =>
        new Structs(number(1), struct.fields.map(field => below(field.dataType, field.name)))
      case ArrayType(element, _) => new Lists(number(2), below(element, "element"))
      case MapType(key, value, _) => new Maps(number(2), number(1), below(key, "key"), below(value, "value"))
      case _ => new Words(number(2), 8, (to, place, row, at) => to.putLong(place, row.getLong(at)))
    }
  }

  /** Write a bit for each of `count` values; return where they begin. */
  private def bits(draft: Draft, count: Int, isSet: Int => Boolean): Int = {
    val place = draft.zeros((count + 7L) / 8)
    var i = 0
    while (i < count) {
      if (isSet(i)) draft.bytes(place + (i >> 3)) = (draft.bytes(place + (i >> 3)) | 1 << (i & 7)).toByte
      i += 1
    }
    place
  }

  private final class Nulls(numbers: (Int, Int)) extends Layout(numbers) {
    override def write(draft: Draft, cells: Cells): Unit = draft.node(numbers._1, cells.count, cells.count)
    override protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit = ()
  }

  private final class Booleans(numbers: (Int, Int)) extends Layout(numbers) {
    override protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit = draft.buffer(first + 1,
      bits(draft, cells.count, i => !(nulls && cells.isNull(i)) && cells.holders(i).getBoolean(cells.at(i))))
  }

  /** Writes one value to a place. */
  private trait Put {
    def apply(draft: Draft, place: Int, holder: SpecializedGetters, at: Int): Unit
  }

  /** Values of `width` bytes. */
  private final class Words(numbers: (Int, Int), width: Int, put: Put) extends Layout(numbers) {
    override protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit = {
      val place = if (nulls) draft.zeros(cells.count.toLong * width) else draft.take(cells.count.toLong * width)
      var i = 0
      while (i < cells.count) {
        if (!nulls || !cells.isNull(i)) put(draft, place + i * width, cells.holders(i), cells.at(i))
        i += 1
      }
      draft.buffer(first + 1, place)
    }
  }

  private def decimals(dataType: DecimalType): Put = (draft, place, holder, at) => {
    val value = holder.getDecimal(at, dataType.precision, dataType.scale)
    if (value.scale == dataType.scale && value.precision <= Decimal.MAX_LONG_DIGITS) {
      draft.putLong(place, value.toUnscaledLong)
      draft.putLong(place + 8, value.toUnscaledLong >> 63)
    } else {
      val bits = value.toJavaBigDecimal.setScale(dataType.scale, RoundingMode.HALF_UP).unscaledValue
      draft.putLong(place, bits.longValue)
      draft.putLong(place + 8, bits.shiftRight(64).longValue)
    }
  }

  /** Values of variable size: their offsets and their bytes. */
  private abstract class Spans(numbers: (Int, Int)) extends Layout(numbers) {
    override protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit = {
      val offsets = draft.take(4L * (cells.count + 1L))
      draft.putInt(offsets, 0)
      draft.buffer(first + 1, offsets)
      val start = draft.end
      var i = 0
      while (i < cells.count) {
        if (!nulls || !cells.isNull(i)) append(draft, cells.holders(i), cells.at(i))
        draft.putInt(offsets + 4 * i + 4, draft.end - start)
        i += 1
      }
      check(draft, start, cells, nulls)
      draft.buffer(first + 2, start)
    }

    protected def append(draft: Draft, holder: SpecializedGetters, at: Int): Unit
    protected def check(draft: Draft, start: Int, cells: Cells, nulls: Boolean): Unit = ()
  }

  private final class Binaries(numbers: (Int, Int)) extends Spans(numbers) {
    override protected def append(draft: Draft, holder: SpecializedGetters, at: Int): Unit = {
      val value = holder.getBinary(at)
      val place = draft.take(value.length)
      System.arraycopy(value, 0, draft.bytes, place, value.length)
    }
  }

  private final class Texts(numbers: (Int, Int), path: String, invalidText: String) extends Spans(numbers) {
    override protected def append(draft: Draft, holder: SpecializedGetters, at: Int): Unit = {
      val value = if (invalidText == "replace") holder.getUTF8String(at).makeValid() else holder.getUTF8String(at)
      val place = draft.take(value.numBytes)
      value.writeToMemory(draft.bytes, BASE + place)
    }

    /** Refuse texts that are not UTF-8: Spark allows any bytes, and Arrow does not. */
    override protected def check(draft: Draft, start: Int, cells: Cells, nulls: Boolean): Unit =
      if (invalidText == "error" && !Validator.isAscii(BASE + start, draft.end - start, draft.bytes)) {
        for (i <- 0 until cells.count if !nulls || !cells.isNull(i)) {
          val value = cells.holders(i).getUTF8String(cells.at(i))
          if (!value.isValid) throw new Usage(
            s"column '$path' holds a text that is ${SparkSchema.notUtf8(value.getBytes)}")
        }
      }
  }

  private final class Structs(numbers: (Int, Int), fields: Array[Layout]) extends Layout(numbers) {
    override protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit = {
      val rows = new Array[SpecializedGetters](cells.count)
      for (i <- 0 until cells.count if !nulls || !cells.isNull(i)) {
        rows(i) = cells.holders(i).getStruct(cells.at(i), fields.length)
      }
      for (i <- fields.indices) fields(i).write(draft, new Cells(rows, null, i, cells.count))
    }
  }

  private final class Lists(numbers: (Int, Int), elements: Layout) extends Layout(numbers) {
    override protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit = {
      val arrays = Array.tabulate(cells.count) { i =>
        if (nulls && cells.isNull(i)) null else cells.holders(i).getArray(cells.at(i))
      }
      val total = offsets(draft, first + 1, arrays.map(array => if (array == null) 0 else array.numElements))
      elements.write(draft, elementsOf(arrays, total))
    }
  }

  private final class Maps(numbers: (Int, Int), entries: (Int, Int), keys: Layout, items: Layout)
      extends Layout(numbers) {
    override protected def values(draft: Draft, cells: Cells, nulls: Boolean): Unit = {
      val maps = Array.tabulate(cells.count) { i =>
        if (nulls && cells.isNull(i)) null else cells.holders(i).getMap(cells.at(i))
      }
      val total = offsets(draft, first + 1, maps.map(map => if (map == null) 0 else map.numElements))
      draft.node(entries._1, total, 0)
      draft.buffer(entries._2, draft.end)
      keys.write(draft, elementsOf(maps.map(map => if (map == null) null else map.keyArray), total))
      items.write(draft, elementsOf(maps.map(map => if (map == null) null else map.valueArray), total))
    }
  }

  /** Write the offsets of lists of these lengths; return the number of all elements. */
  private def offsets(draft: Draft, number: Int, lengths: Array[Int]): Int = {
    val place = draft.take(4L * (lengths.length + 1L))
    draft.putInt(place, 0)
    var total = 0L
    for (i <- lengths.indices) {
      total += lengths(i)
      draft.putInt(place + 4 * i + 4, total.toInt)
    }
    Limit.unless(total <= Int.MaxValue, "lists of %d elements in a payload", total)
    draft.buffer(number, place)
    total.toInt
  }

  private def elementsOf(arrays: Array[ArrayData], total: Int): Cells = {
    val holders = new Array[SpecializedGetters](total)
    val places = new Array[Int](total)
    var next = 0
    for (array <- arrays if array != null; i <- 0 until array.numElements) {
      holders(next) = array
      places(next) = i
      next += 1
    }
    new Cells(holders, places, 0, total)
  }
}
