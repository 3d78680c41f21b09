package org.arrowipc.spark
package vectors

import java.math.{BigDecimal, BigInteger}
import org.apache.arrow.memory.util.Float16
import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.sql.types.{DataType, DateType, Decimal, DecimalType}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Vectors of values that Spark stores in another form than Arrow: each is converted when Spark asks for it. */
private[spark] object Numbers {
  /** Unsigned integers, in the next wider type. */
  final class Unsigned(target: DataType, column: Column) extends Vectors.Fixed(target, column, 0) {
    override def getShort(row: Int): Short = (getByte(row) & 0xff).toShort
    override def getInt(row: Int): Int = super.getShort(row) & 0xffff
    override def getLong(row: Int): Long = super.getInt(row) & 0xffffffffL

    override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = if (isNullAt(row)) null else {
      val bits = super.getLong(row)
      val value = BigInteger.valueOf(bits >>> 1).shiftLeft(1).or(BigInteger.valueOf(bits & 1))
      Decimal(new BigDecimal(value).setScale(scale), precision, scale)
    }
  }

  /** Floating-point numbers of 16 bits. */
  final class Half(target: DataType, column: Column) extends Vectors.Fixed(target, column, 0) {
    override def getFloat(row: Int): Float = Float16.toFloat(getShort(row))
  }

  /** Bytes that are true unless they are 0. */
  final class Bool8(target: DataType, column: Column) extends Vectors.Fixed(target, column, 0) {
    override def getBoolean(row: Int): Boolean = getByte(row) != 0
  }

  /** UUIDs as text. */
  final class Uuid(target: DataType, column: Column) extends Vectors.Fixed(target, column, 0) {
    override def getUTF8String(row: Int): UTF8String = if (isNullAt(row)) null else {
      val high = java.lang.Long.reverseBytes(Platform.getLong(null, at(row)))
      val low = java.lang.Long.reverseBytes(Platform.getLong(null, at(row) + 8))
      UTF8String.fromString(new java.util.UUID(high, low).toString)
    }
  }

  private val Day = 86400000000000L

  /**
   * Counts of one unit of time as counts of another: milliseconds as days, seconds as microseconds, and so on. If
   * `exact`, a count that is not a whole number of the new unit is refused; if `clock`, one outside of a day.
   */
  final class Scaled(target: DataType, column: Column, times: Long, per: Long, exact: Boolean, clock: Boolean)
      extends Vectors.Fixed(target, column, 0) {
    private[this] val narrow = column.plan.width == 4

    private def stored(row: Int): Long = if (narrow) super.getInt(row) else super.getLong(row)

    override def getInt(row: Int): Int = getLong(row).toInt
    override def getLong(row: Int): Long = Math.floorDiv(stored(row), per) * times

    override def check(from: Int, to: Int): Unit = {
      val most = Long.MaxValue / times
      var row = from
      while (row < to) {
        val count = stored(row)
        val fits = !broken(count) && (count <= most && count >= -most || per > 1) &&
          (target != DateType || getLong(row) == getInt(row))
        if (!(fits && (!clock || 0 <= getLong(row) && getLong(row) < Day)) && !isNullAt(row)) throw refusal(count)
        row += 1
      }
    }

    private def broken(count: Long): Boolean = exact && Math.floorMod(count, per) != 0

    private def refusal(count: Long): ArrowIpcException = {
      val what =
        if (broken(count))
          s"$count ns, which is not a whole number of microseconds, and Spark keeps no more; set the option " +
            "nanoseconds=\"truncate\" to drop the rest or nanoseconds=\"long\" to get a bigint"
        else if (clock)
          String.format("%.6f", count.toDouble / per * times / 1e9) +
            " s, which is no time of day: Spark's TIME goes from 0 to less than 86,400 s; correct it where it is " +
            "written, or give a schema with BIGINT for it, which holds any number of nanoseconds"
        else s"a value that ${target.simpleString} cannot: $count"
      new ArrowIpcException.Unsupported(s"column '${column.plan.path}' (${column.plan.`type`}) holds $what")
    }
  }

  /** Decimals of any width and scale, with Spark's precision and scale; or as text, if Spark has too few digits. */
  final class Decimals(target: DataType, column: Column) extends Vectors.Fixed(target, column, 0) {
    private[this] val width = column.plan.width
    private[this] val stored = column.plan.`type`.asInstanceOf[ArrowType.Decimal].getScale
    private[this] val (precision, scale) = target match {
      case decimal: DecimalType => (decimal.precision, decimal.scale)
      case _ => (Int.MaxValue, stored)
    }
    private[this] val small = precision <= Decimal.MAX_LONG_DIGITS && scale == stored
    private[this] val most = if (small) Decimal.POW_10(precision) else 0L
    private[this] val bound = if (precision <= DecimalType.MAX_PRECISION) BigInteger.TEN.pow(precision) else null

    private def value(row: Int): BigDecimal =
      if (isLong(row)) BigDecimal.valueOf(getLong(row), stored)
      else {
        val bytes = new Array[Byte](width)
        var i = 0
        while (i < width) {
          bytes(i) = Platform.getByte(null, at(row) + width - 1 - i)
          i += 1
        }
        new BigDecimal(new BigInteger(bytes), stored)
      }

    /** Whether the first 8 bytes hold the whole unscaled value. */
    private def isLong(row: Int): Boolean = {
      val sign = getLong(row) >> 63
      var word = 8
      while (word < width && Platform.getLong(null, at(row) + word) == sign) word += 8
      word >= width
    }

    /** The unscaled value from its first 8 bytes, if they hold it. */
    override def getLong(row: Int): Long = if (width == 4) super.getInt(row) else super.getLong(row)

    override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
      if (isNullAt(row)) null
      else if (small && scale == this.scale) Decimal.createUnsafe(getLong(row), precision, scale)
      else Decimal(value(row).setScale(scale), precision, scale)

    override def getUTF8String(row: Int): UTF8String =
      if (isNullAt(row)) null else UTF8String.fromString(value(row).toString)

    override def check(from: Int, to: Int): Unit = {
      var row = from
      while (bound != null && row < to) {
        if (!fits(row) && !isNullAt(row)) throw new ArrowIpcException.Unsupported(
          s"column '${column.plan.path}' holds ${value(row)}, more than the digits of its type: ${target.simpleString}")
        row += 1
      }
    }

    private def fits(row: Int): Boolean =
      if (small) isLong(row) && -most < getLong(row) && getLong(row) < most
      else isNullAt(row) || value(row).setScale(scale).unscaledValue.abs.compareTo(bound) < 0
  }
}
