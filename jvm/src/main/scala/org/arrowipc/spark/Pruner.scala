package org.arrowipc.spark

import java.math.BigDecimal
import java.sql.{Date, Timestamp}
import java.time.{Instant, LocalDate, LocalDateTime}
import org.apache.spark.sql.catalyst.util.{DateTimeUtils, RebaseDateTime}
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/** Finds the batches that may have rows that pass all filters: by bounds, without reading rows; doubt keeps a batch. */
private[spark] final case class Pruner(filters: Array[Filter], schema: StructType, options: ReadOptions) {
  import Pruner._

  /** Return the `batches` of an open file that have to be read. */
  def kept(file: IpcFile, batches: Seq[Int]): Seq[Int] =
    if (filters.isEmpty) batches
    else {
      val bounds = new Bounds(file, schema, options)
      batches.filter { batch =>
        val known = bounds.of(batch)
        filters.forall(may(_, false, known))
      }
    }
}

private[spark] object Pruner {
  /** Facts about a column in a batch: whether there may be values, or nulls, and the values' bounds (null: unknown). */
  final case class Known(values: Boolean, nulls: Boolean, low: Any, high: Any)

  val Nothing: Known = Known(true, true, null, null)
  val Missing: Known = Known(false, true, null, null)

  /** Whether some row may pass a filter, or if `negated`, its negation, which nulls do not pass either. */
  private def may(filter: Filter, negated: Boolean, known: String => Known): Boolean = filter match {
    case Not(child) => may(child, !negated, known)
    case And(left, right) if negated => may(left, true, known) || may(right, true, known)
    case And(left, right) => may(left, false, known) && may(right, false, known)
    case Or(left, right) if negated => may(left, true, known) && may(right, true, known)
    case Or(left, right) => may(left, false, known) || may(right, false, known)
    case IsNull(name) => ofNull(known(name), !negated)
    case IsNotNull(name) => ofNull(known(name), negated)
    case EqualNullSafe(name, null) => ofNull(known(name), !negated)
    case EqualNullSafe(name, value) => (negated && known(name).nulls) || equal(known(name), value, negated)
    case EqualTo(name, value) => equal(known(name), value, negated)
    case In(name, values) if negated => values.forall(value => value == null || equal(known(name), value, true))
    case In(name, values) => values.exists(value => value != null && equal(known(name), value, false))
    case GreaterThan(name, value) => beyond(known(name), value, above = !negated, strict = !negated)
    case GreaterThanOrEqual(name, value) => beyond(known(name), value, above = !negated, strict = negated)
    case LessThan(name, value) => beyond(known(name), value, above = negated, strict = !negated)
    case LessThanOrEqual(name, value) => beyond(known(name), value, above = negated, strict = negated)
    case StringStartsWith(name, value) if !negated =>
      val prefix = UTF8String.fromString(value)
      val column = known(name)
      column.values && compare(column.high, prefix).forall(_ >= 0) && (column.low match {
        case low: UTF8String => low.binaryCompare(prefix) <= 0 || low.startsWith(prefix)
        case _ => true
      })
    case _ => true
  }

  private def ofNull(column: Known, wanted: Boolean): Boolean = if (wanted) column.nulls else column.values

  /** Whether some value may be equal to a literal, or if `negated`, differ from it. */
  private def equal(column: Known, literal: Any, negated: Boolean): Boolean = {
    val low = compare(column.low, comparable(literal))
    val high = compare(column.high, comparable(literal))
    column.values &&
      (if (negated) !(low.contains(0) && high.contains(0)) else low.forall(_ <= 0) && high.forall(_ >= 0))
  }

  /** Whether some value may be above a literal, or else below it, or equal to it unless `strict`. */
  private def beyond(column: Known, literal: Any, above: Boolean, strict: Boolean): Boolean = {
    val value = comparable(literal)
    val found = if (above) compare(column.high, value) else compare(value, column.low)
    column.values && found.forall(sign => if (strict) sign > 0 else sign >= 0)
  }

  /** Compare two values: -1, 0 or 1; None if they cannot be compared. */
  def compare(one: Any, other: Any): Option[Int] = (one, other) match {
    case (one: UTF8String, other: UTF8String) => Some(Integer.signum(one.binaryCompare(other)))
    case (one: Comparable[_], other: Comparable[_]) if one.getClass == other.getClass =>
      Some(Integer.signum(one.asInstanceOf[Comparable[Any]].compareTo(other)))
    case _ => None
  }

  /** Convert a literal to the form that `compare` needs; null if there is none. */
  def comparable(value: Any): Any = value match {
    case whole @ (_: Byte | _: Short | _: Int | _: Long) => whole.asInstanceOf[Number].longValue
    case real @ (_: Float | _: Double) => real.asInstanceOf[Number].doubleValue + 0.0 // -0.0 becomes 0.0
    case text: String => UTF8String.fromString(text)
    case bytes: Array[Byte] => UTF8String.fromBytes(bytes)
    // The calendar of these two classes lacks ten days of 1582, which Spark moves to another day; and before 1900 Spark
    // converts moments to others of the same wall clock. A value that may stand for several moments is not used.
    case date: Date =>
      val days = DateTimeUtils.fromJavaDate(date)
      if (days == RebaseDateTime.lastSwitchGregorianDay) null else days.toLong
    case time: Timestamp =>
      val micros = DateTimeUtils.fromJavaTimestamp(time)
      if (micros < RebaseDateTime.lastSwitchGregorianTs) null else micros
    case date: LocalDate => date.toEpochDay
    case time: Instant => DateTimeUtils.instantToMicros(time)
    case time: LocalDateTime => DateTimeUtils.localDateTimeToMicros(time)
    case _: UTF8String | _: Boolean | _: BigDecimal => value
    case _ => null
  }
}
