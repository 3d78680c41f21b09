package org.arrowipc.spark

import java.util
import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.unsafe.Platform.{getByte, getInt, getLong, getShort}
import org.arrowipc.spark.Plan.Layout
import org.arrowipc.spark.vectors.Vector

/**
 * One array of a batch: its node and where its buffers lie in memory. An address of 0 is an absent buffer.
 *
 * @param nulls the null count; -1, only before `checkSizes`: not counted yet
 * @param data  the number of data buffers, which columns of views have after their first two buffers
 * @param children null for each child that is not wanted
 */
private[spark] final class Column(
    val plan: Plan, val length: Long, var nulls: Long, data: Int, val children: Array[Column]) {
  val address: Array[Long] = new Array(plan.layout.buffers + data)
  val size: Array[Long] = new Array(plan.layout.buffers + data)
  /** The dictionary that the indices refer to. */
  var dictionary: Column.Dictionary = _

  /** The address of the validity bitmap; 0 if nothing is null, or the layout has none. */
  def validity(): Long = if (plan.layout.hasValidity) address(0) else 0

  def isNull(row: Long): Boolean = {
    val bits = validity()
    bits != 0 && (getByte(null, bits + (row >> 3)) >> (row & 7).toInt & 1) == 0
  }

  /** Element `at` of a buffer of signed integers of `width` bytes. */
  def word(buffer: Int, width: Int, at: Long): Long = {
    val place = address(buffer) + width * at
    width match {
      case 1 => getByte(null, place)
      case 2 => getShort(null, place)
      case 4 => getInt(null, place)
      case _ => getLong(null, place)
    }
  }

  /** The dictionary index of a row; an unsigned one of 2**63 or more, which no dictionary has, is negative. */
  def index(row: Long): Long = {
    val found = word(1, plan.width, row)
    if (plan.width == 8 || plan.`type`.asInstanceOf[ArrowType.Int].getIsSigned) found
    else found & (1L << 8 * plan.width) - 1
  }

  /** The first element of a row's list, or first byte of its text; for row `length`, the end of the last row's. */
  def offset(row: Long): Long = plan.layout match {
    case Layout.FIXED_LIST => row * plan.width
    case _ if address(1) == 0 => 0
    case Layout.VAR32 | Layout.LIST32 | Layout.LIST_VIEW32 => getInt(null, address(1) + 4 * row)
    case _ => getLong(null, address(1) + 8 * row)
  }

  /** The number of elements of a row's list, or of bytes of its text. */
  def count(row: Long): Long = plan.layout match {
    case Layout.FIXED_LIST => plan.width
    case Layout.LIST_VIEW32 => getInt(null, address(2) + 4 * row)
    case Layout.LIST_VIEW64 => getLong(null, address(2) + 8 * row)
    case _ => offset(row + 1) - offset(row)
  }

  /** The run that contains a row, if this column holds run ends; the number of runs for rows after the last one. */
  def run(row: Long): Long = {
    var low = 0L
    var high = length
    while (low < high) {
      val middle = low + high >>> 1
      if (row < word(1, plan.width, middle)) high = middle else low = middle + 1
    }
    low
  }

  // -- sizes ---------------------------------------------------------------------------------------------------

  /** Refuse buffers and children that are too short for the length; after this only contents are untrusted. */
  def checkSizes(): Unit = {
    plan.layout match {
      case Layout.BITS => need(1, (length + 7) >>> 3)
      case Layout.FIXED => need(1, times(length, plan.width))
      case Layout.VIEW => need(1, times(length, 16))
      case Layout.VAR32 | Layout.LIST32 => needOffsets(4)
      case Layout.VAR64 | Layout.LIST64 => needOffsets(8)
      case Layout.LIST_VIEW32 | Layout.LIST_VIEW64 =>
        val bytes = times(length, if (plan.layout == Layout.LIST_VIEW32) 4 else 8)
        need(1, bytes)
        need(2, bytes)
      case Layout.SPARSE => need(0, length)
      case Layout.DENSE =>
        need(0, length)
        need(1, times(length, 4))
      case _ =>
    }
    checkValidity()
    for (child <- children if child != null) {
      checkChild(child.length)
      child.checkSizes()
    }
  }

  private def checkChild(found: Long): Unit = {
    val needed = plan.layout match {
      case Layout.STRUCT | Layout.SPARSE => length
      case Layout.FIXED_LIST => times(length, plan.width)
      case Layout.RUN_END => math.max(children(0).length, math.min(length, 1)) // rows need at least one run
      case _ => 0
    }
    prove(found == needed || found > needed && plan.layout != Layout.RUN_END,
      s"a child has $found elements, expected $needed")
    if (found > Int.MaxValue && plan.layout != Layout.STRUCT) {
      throw new ArrowIpcException.Unsupported(s"column ${plan.path} has more than 2**31 - 1 elements")
    }
  }

  private def checkValidity(): Unit =
    if (!plan.layout.hasValidity) {
      prove(plan.layout != Layout.RUN_END || nulls <= 0, s"run ends have no nulls, and the node states $nulls")
      nulls = if (plan.layout == Layout.NULL) length else 0
    } else if (nulls == 0 || (nulls < 0 && size(0) == 0)) {
      nulls = 0
      address(0) = 0
    } else {
      need(0, (length + 7) >>> 3)
      if (nulls < 0) nulls = countNulls()
    }

  private def countNulls(): Long = {
    var found, row = 0L
    while (row < length) {
      if (isNull(row)) found += 1
      row += 1
    }
    found
  }

  private def needOffsets(width: Int): Unit =
    if (length == 0 && size(1) < width) address(1) = 0 // writers before Arrow 1.0 omit the offset 0 of an empty array
    else need(1, times(length + 1, width))

  private def need(buffer: Int, bytes: Long): Unit =
    prove(size(buffer) >= bytes, s"buffer $buffer has ${size(buffer)} bytes, and $length elements need $bytes")

  private def times(one: Long, other: Long): Long =
    if (Math.multiplyHigh(one, other) != 0 || one * other < 0) Long.MaxValue else one * other

  def prove(good: Boolean, otherwise: => String): Unit = if (!good) throw fault(otherwise)

  def fault(what: String): ArrowIpcException = new ArrowIpcException.Format(s"column '${plan.path}': $what")
}

private[spark] object Column {
  /** The values of a dictionary: of one dictionary batch, and of the deltas after it. */
  final class Dictionary(val parts: Array[Column]) {
    val length: Long = parts.map(_.length).sum
    val vectors: util.Map[Object, Vector] = new util.IdentityHashMap
  }
}
