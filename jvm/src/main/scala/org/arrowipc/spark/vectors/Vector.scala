package org.arrowipc.spark
package vectors

import org.apache.spark.sql.types.{DataType, Decimal}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.types.UTF8String

/**
 * A column as Spark reads it: a view of a batch's memory, which the reader owns and keeps until its next batch.
 *
 * Vectors convert each value when Spark asks for it. Before that, [[check]] has looked at all values, and refused those
 * that Spark cannot hold. Interpreted code of Spark asks for the values of null rows, too: then an object is null, and
 * a number may be anything.
 */
private[spark] abstract class Vector(target: DataType, rows: Long) extends ColumnVector(target) {
  final val length: Int = math.min(rows, Int.MaxValue).toInt

  /** Raise an error for the first value of the rows [from, to) that Spark cannot hold. */
  def check(from: Int, to: Int): Unit = ()

  override def close(): Unit = ()
  override def hasNull: Boolean = numNulls > 0
  override lazy val numNulls: Int = countNulls()

  protected def countNulls(): Int = {
    var count, row = 0
    while (row < length) {
      if (isNullAt(row)) count += 1
      row += 1
    }
    count
  }

  private def not(what: String): Nothing =
    throw new UnsupportedOperationException(s"${dataType.simpleString} is not $what")

  override def getBoolean(row: Int): Boolean = if (isNullAt(row)) false else not("boolean")
  override def getByte(row: Int): Byte = if (isNullAt(row)) 0 else not("tinyint")
  override def getShort(row: Int): Short = if (isNullAt(row)) 0 else not("smallint")
  override def getInt(row: Int): Int = if (isNullAt(row)) 0 else not("int")
  override def getLong(row: Int): Long = if (isNullAt(row)) 0 else not("bigint")
  override def getFloat(row: Int): Float = if (isNullAt(row)) 0 else not("float")
  override def getDouble(row: Int): Double = if (isNullAt(row)) 0 else not("double")
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = if (isNullAt(row)) null else not("decimal")
  override def getUTF8String(row: Int): UTF8String = if (isNullAt(row)) null else not("string")
  override def getBinary(row: Int): Array[Byte] = if (isNullAt(row)) null else not("binary")
  override def getArray(row: Int): ColumnarArray = if (isNullAt(row)) null else not("array")
  override def getMap(row: Int): ColumnarMap = if (isNullAt(row)) null else not("map")
  override def getChild(ordinal: Int): ColumnVector = not("struct")
}
