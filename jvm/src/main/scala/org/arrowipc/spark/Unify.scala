package org.arrowipc.spark

import scala.collection.mutable
import org.apache.spark.sql.types._
import org.arrowipc.spark.ArrowIpcException.Limit

/**
 * Merges the schemas of files into one, for `mergeSchema`. Columns and fields of structs are matched by name. A column
 * that a file does not have, or that is nullable in one, is nullable. Its type is the common one, or one that holds
 * the values of all files without loss:
 *
 * {{{
 * void                                any type
 * tinyint, smallint, int, bigint      the wider of two
 * tinyint, smallint and float         float
 * tinyint, smallint, int and double   double
 * float and double                    double
 * tinyint, smallint, int, bigint      as a decimal of 3, 5, 10 and 20 digits
 *   and decimal
 * two decimals                        one with the digits of both before and after the point, if they are at most 38
 * array, map, struct                  the same for their elements, keys, values and fields
 * }}}
 *
 * [[Converters]] and [[Cast]] convert the values of each file to these types.
 */
private[spark] object Unify {
  private final val MOST_COLUMNS = 100000

  /** Merge two schemas; unless `caseSensitive`, names that differ only in case are the same name. */
  def merged(one: StructType, other: StructType, caseSensitive: Boolean): StructType =
    new Unify(caseSensitive).structs(one, other, "")

  /** Decimal digits of the integer types; `EXACT` also has those of integers that float and double hold exactly. */
  private val DIGITS = Map[DataType, Int](ByteType -> 3, ShortType -> 5, IntegerType -> 10, LongType -> 20)
  private val EXACT = DIGITS ++ Map[DataType, Int](FloatType -> 5, DoubleType -> 10)

  /** The type that holds the values of both types, if the first is the narrower one. */
  private def wider(one: DataType, other: DataType): Option[DataType] = (one, other) match {
    case (NullType, _) | (FloatType, DoubleType) => Some(other)
    case (a: DecimalType, b: DecimalType) =>
      val scale = Math.max(a.scale, b.scale)
      val precision = Math.max(a.precision - a.scale, b.precision - b.scale) + scale
      Option.when(precision <= DecimalType.MAX_PRECISION)(DecimalType(precision, scale))
    case (_, _: DecimalType) => DIGITS.get(one).flatMap(digits => wider(DecimalType(digits, 0), other))
    case _ => DIGITS.get(one).filter(_ <= EXACT.getOrElse(other, 0)).map(_ => other)
  }
}

private final class Unify(caseSensitive: Boolean) {
  import Unify._

  private def structs(one: StructType, other: StructType, prefix: String): StructType = {
    val right = byName(other)
    val both = mutable.LinkedHashMap.empty[String, StructField]
    for ((key, field) <- byName(one)) both(key) = right.get(key).fold(field.copy(nullable = true)) { more =>
      val kind = types(field.dataType, more.dataType, prefix + more.name)
      field.copy(dataType = kind, nullable = field.nullable || more.nullable)
    }
    for ((key, field) <- right) both.getOrElseUpdate(key, field.copy(nullable = true))
    Limit.unless(both.size <= MOST_COLUMNS, "there are more than %d columns together", MOST_COLUMNS)
    StructType(both.values.toArray)
  }

  private def byName(struct: StructType): mutable.LinkedHashMap[String, StructField] = {
    val found = mutable.LinkedHashMap.empty[String, StructField]
    struct.fields.foreach { field =>
      val key = Names.key(field.name, caseSensitive)
      found.put(key, field).foreach(twin => throw new ArrowIpcException.Usage(
        s"names that differ in case only do not merge: '${twin.name}', '${field.name}'; rename one of them where " +
          "the data is written, or set spark.sql.caseSensitive"))
    }
    found
  }

  private def types(one: DataType, other: DataType, path: String): DataType = (one, other) match {
    case _ if one == other => one
    case (a: StructType, b: StructType) => structs(a, b, path + ".")
    case (a: ArrayType, b: ArrayType) =>
      ArrayType(types(a.elementType, b.elementType, path + ".element"), a.containsNull || b.containsNull)
    case (a: MapType, b: MapType) =>
      val key = types(a.keyType, b.keyType, path + ".key")
      MapType(key, types(a.valueType, b.valueType, path + ".value"), a.valueContainsNull || b.valueContainsNull)
    case _ =>
      wider(one, other).orElse(wider(other, one)).getOrElse(throw new ArrowIpcException.Usage(
        s"column '$path' is ${one.simpleString} in one and ${other.simpleString} in another, and no type holds the " +
          "values of both without loss; give a schema that says what is wanted"))
  }
}
