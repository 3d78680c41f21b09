package org.arrowipc.spark
package vectors

import java.math.{BigDecimal, RoundingMode}
import org.apache.spark.sql.types._

/** Values of one type as another type that the schema asks for; each value is checked. */
private[spark] final class Cast(target: DataType, values: Vector, path: String)
    extends Vectors.Elsewhere(target, values.length) {
  private[this] val natural = values.dataType

  override protected def at(row: Int): Int = row
  override protected def in(row: Int): Vector = values

  /** The exact value as a decimal, if the natural type is an integer or decimal. */
  private def exact(row: Int): BigDecimal = natural match {
    case decimal: DecimalType => values.getDecimal(row, decimal.precision, decimal.scale).toJavaBigDecimal
    case _ => BigDecimal.valueOf(whole(row))
  }

  private def whole(row: Int): Long = natural match {
    case LongType => values.getLong(row)
    case _: DecimalType => if (isNullAt(row)) 0 else exact(row).longValue
    case ByteType => values.getByte(row)
    case ShortType => values.getShort(row)
    case _ => values.getInt(row)
  }

  override def getByte(row: Int): Byte = whole(row).toByte
  override def getShort(row: Int): Short = whole(row).toShort
  override def getInt(row: Int): Int = whole(row).toInt
  override def getLong(row: Int): Long = if (natural == DateType) values.getInt(row) * Cast.Day else whole(row)
  override def getFloat(row: Int): Float = whole(row).toFloat
  override def getDouble(row: Int): Double = if (natural == FloatType) values.getFloat(row) else whole(row).toDouble

  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
    if (isNullAt(row)) null else Decimal(exact(row).setScale(scale, RoundingMode.DOWN), precision, scale)

  override def check(from: Int, to: Int): Unit = {
    values.check(from, to)
    var row = from
    while (row < to) {
      if (!values.isNullAt(row) && !fits(row)) throw new ArrowIpcException.Unsupported(
        s"column '$path' holds a value that ${target.simpleString} cannot: ${exact(row)}")
      row += 1
    }
  }

  private def fits(row: Int): Boolean = target match {
    case DoubleType if natural == FloatType => true
    case TimestampNTZType => math.abs(values.getInt(row).toLong) <= Long.MaxValue / Cast.Day
    case decimal: DecimalType =>
      val found = exact(row)
      val cut = found.setScale(decimal.scale, RoundingMode.DOWN)
      cut.compareTo(found) == 0 && cut.precision <= decimal.precision
    case _ if natural.isInstanceOf[DecimalType] =>
      val found = exact(row)
      found.stripTrailingZeros.scale <= 0 && found.toBigInteger.bitLength < 8 * target.defaultSize
    case FloatType => fits(row, 25)
    case DoubleType => fits(row, 54)
    case _ => whole(row) << 64 - 8 * target.defaultSize >> 64 - 8 * target.defaultSize == whole(row)
  }

  /** Whether signed integers of `bits` bits hold the value, or it is the next power of two, which is exact, too. */
  private def fits(row: Int, bits: Int): Boolean = {
    val found = whole(row)
    found << 64 - bits >> 64 - bits == found || found == 1L << bits - 1
  }
}

private[spark] object Cast {
  private val Day = 86400000000L

  /** Whether values of one type can be cast to another. */
  def possible(natural: DataType, target: DataType): Boolean = (natural, target) match {
    case (ByteType | ShortType | IntegerType | LongType, _: NumericType) => true
    case (FloatType, DoubleType) | (DateType, TimestampNTZType) => true
    case (_: DecimalType, _: DecimalType | ByteType | ShortType | IntegerType | LongType) => true
    case _ => false
  }
}
