package org.arrowipc.spark

import java.math.BigDecimal
import java.sql.{Date, Timestamp}
import java.time.{Instant, LocalDate, LocalDateTime}
import org.apache.spark.sql.catalyst.util.{DateTimeUtils, RebaseDateTime}
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/** Which batches no row that passes all filters can be in; rows are never looked at, doubt keeps a batch. */
private[spark] final case class Pruner(filters: Array[Filter], schema: StructType, options: ReadOptions) {
  import Pruner._

  /** Those of some batches of an open file that have to be read. */
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
  /** What is known of a column's rows: whether some hold a value, or null, and bounds of the values; null: unknown. */
  final case class Known(values: Boolean, nulls: Boolean, low: Any, high: Any)

  val Nothing: Known = Known(true, true, null, null)
  val Missing: Known = Known(false, true, null, null)

  /** Whether some row may pass a filter, or its opposite, in which nulls pass as little. */
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

  /** Whether a value may be equal, or another one. */
  private def equal(column: Known, literal: Any, negated: Boolean): Boolean = {
    val low = compare(column.low, comparable(literal))
    val high = compare(column.high, comparable(literal))
    column.values &&
      (if (negated) !(low.contains(0) && high.contains(0)) else low.forall(_ <= 0) && high.forall(_ >= 0))
  }

  /** Whether a value may lie above a literal, or below it, itself excluded where that is strict. */
  private def beyond(column: Known, literal: Any, above: Boolean, strict: Boolean): Boolean = {
    val value = comparable(literal)
    val found = if (above) compare(column.high, value) else compare(value, column.low)
    column.values && found.forall(sign => if (strict) sign > 0 else sign >= 0)
  }

  /** How two values compare: -1, 0 or 1; none where that is not known. */
  def compare(one: Any, other: Any): Option[Int] = (one, other) match {
    case (one: UTF8String, other: UTF8String) => Some(Integer.signum(one.binaryCompare(other)))
    case (one: Comparable[_], other: Comparable[_]) if one.getClass == other.getClass =>
      Some(Integer.signum(one.asInstanceOf[Comparable[Any]].compareTo(other)))
    case _ => None
  }

  /** A literal in the one form in which values compare; null: in none. */
  def comparable(value: Any): Any = value match {
    case whole @ (_: Byte | _: Short | _: Int | _: Long) => whole.asInstanceOf[Number].longValue
    case real @ (_: Float | _: Double) => real.asInstanceOf[Number].doubleValue + 0.0 // one zero
    case text: String => UTF8String.fromString(text)
    case bytes: Array[Byte] => UTF8String.fromBytes(bytes)
    // The calendar of these two lacks ten days of 1582, which Spark puts into others; and until 1900 it makes of a
    // moment one of the same wall clock. A value that may stand for several is none.
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
