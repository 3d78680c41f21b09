package org.arrowipc.spark

import java.io.IOException
import java.math.{BigDecimal, BigInteger}
import java.util.Base64
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.types.{DateUnit, TimeUnit}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field}
import org.apache.spark.sql.types.{DataType, LongType, NullType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * The bounds of columns, as Spark's values, from the statistics in the headers of a file's batches: the JSON that
 * `arrowipc.filters.statistics` describes. Nothing proves that they are true.
 */
private[spark] final class Bounds(file: IpcFile, schema: StructType, options: ReadOptions) {
  import Bounds._
  import Statistics.JSON

  private[this] val columns = mutable.HashMap.empty[String, Option[Column]]
  private[this] val fields = file.schema.getFields.asScala
  private[this] val mark = Statistics.mark(file.schema)

  /** Return the function that says what is known about a column in a batch; names are those of Spark's filters. */
  def of(batch: Int): String => Pruner.Known = {
    lazy val all = statistics(batch)
    name => columns.getOrElseUpdate(name, column(name)) match {
      case Some(column) => known(column, all)
      // No batch has the column: it is null in all rows.
      case None if !name.contains('.') && !fields.exists(each => name.equalsIgnoreCase(each.getName)) => Pruner.Missing
      case None => Pruner.Nothing
    }
  }

  /** The statistics of a batch; none if a tool copied them from a batch with other columns or another row count. */
  private def statistics(batch: Int): JsonNode = try {
    val message = file.header(file.batches(batch))
    val rows = IpcFile.length(IpcFile.batch(message))
    val texts = Metadata.pairs(message).filter(_.key == Statistics.KEY).map(_.value)
    val read = texts.filter(text => text != null && text.length <= MostBytes).map(JSON.readTree(_))
    read.toSeq.lastOption.filter { all =>
      all.path("rows").asLong(-1) == rows && all.path("names").asLong(-1) == mark && all.path("v").asInt == 1
    }.getOrElse(JSON.missingNode)
  } catch { case _: IOException | _: RuntimeException => JSON.missingNode } // reading the batch reports it

  private def column(name: String): Option[Column] =
    if (name.contains('`')) Some(Column(name, null, false)) else column(name.split("\\.").toList, fields, schema, "")

  /** The file's column that a path refers to, below `fields`, which are read as type `target`. */
  private def column(
      parts: List[String], fields: collection.Seq[Field], target: DataType, prefix: String): Option[Column] =
    (target, new Names(fields.map(_.getName)).all(parts.head)) match {
      case (struct: StructType, Seq(place)) =>
        val field = fields(place)
        val path = prefix + field.getName
        val wanted = new Names(struct.fieldNames.toSeq).all(parts.head) match {
          case Seq(only) => struct(only).dataType
          case _ => NullType
        }
        if (parts.tail.nonEmpty) {
          val below = if (field.getType.isInstanceOf[ArrowType.Struct]) field.getChildren.asScala else Nil
          column(parts.tail, below, wanted, s"$path.")
        } else {
          val stored = if (field.getType.isInstanceOf[ArrowType.RunEndEncoded]) field.getChildren.get(1) else field
          val same = SparkTypes.of(field, options, path) == wanted
          Some(Column(path, if (same) Plan.stored(stored) else null, wanted == LongType))
        }
      case _ => None
    }
}

private[spark] object Bounds {
  /**
   * A column of the file: the path of its statistics; its type, or null if its values compare in another way than
   * Spark's; and whether it is read as a number of nanoseconds.
   */
  final case class Column(path: String, kind: ArrowType, counts: Boolean)

  private val MostBytes = 1 << 24
  private val MostDigits = 80

  private def known(column: Column, all: JsonNode): Pruner.Known = {
    val one = all.path("columns").path(column.path)
    val (rows, nulls) = (all.path("rows"), one.path("nulls"))
    val sane = one.isObject && rows.isIntegralNumber && rows.longValue >= 0 && (nulls.isMissingNode ||
      nulls.isIntegralNumber && nulls.longValue <= rows.longValue && nulls.longValue >= 0)
    // Spark orders NaN above all numbers.
    val nan = one.path("kind").asText == "float" && one.path("nan").asBoolean(true)
    if (!sane) Pruner.Nothing
    else Pruner.Known(nulls.asLong(-1) != rows.longValue, nulls.asLong(-1) != 0, value(column, one, "min"),
      if (nan) null else value(column, one, "max"))
  }

  /** A bound in the form that `Pruner.compare` needs; null if it is unknown, or cannot be compared. */
  private def value(column: Column, one: JsonNode, end: String): Any = {
    val bound = one.path(end)
    val text = bound.asText
    try (column.kind, one.path("kind").asText) match {
      case _ if bound.isMissingNode || bound.isNull => null
      case (_: ArrowType.Bool, _) => if (bound.isBoolean) bound.booleanValue else null
      case (Plan.Texts(), "text") => UTF8String.fromString(text)
      case (Plan.Binaries(), "binary") => UTF8String.fromBytes(Base64.getDecoder.decode(text))
      case (_: ArrowType.FloatingPoint, "float") => text.replace("inf", "Infinity").toDouble + 0.0
      case (kind, "int") if text.length <= MostDigits => number(column, kind, new BigInteger(text))
      case _ => null
    } catch { case _: ArithmeticException | _: IllegalArgumentException => null }
  }

  private def number(column: Column, kind: ArrowType, whole: BigInteger): Any = kind match {
    case int: ArrowType.Int if !int.getIsSigned && int.getBitWidth == 64 => new BigDecimal(whole)
    case _: ArrowType.Int => whole.longValueExact
    case decimal: ArrowType.Decimal => new BigDecimal(whole, decimal.getScale)
    case date: ArrowType.Date =>
      Math.floorDiv(whole.longValueExact, if (date.getUnit == DateUnit.DAY) 1L else 86400000L)
    case timestamp: ArrowType.Timestamp => timestamp.getUnit match {
      case TimeUnit.SECOND => Math.multiplyExact(whole.longValueExact, 1000000L)
      case TimeUnit.MILLISECOND => Math.multiplyExact(whole.longValueExact, 1000L)
      case TimeUnit.MICROSECOND => whole.longValueExact
      case TimeUnit.NANOSECOND => Math.floorDiv(whole.longValueExact, if (column.counts) 1L else 1000L)
    }
    case _ => null
  }
}
