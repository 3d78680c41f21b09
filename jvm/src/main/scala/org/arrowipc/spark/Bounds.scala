package org.arrowipc.spark

import java.io.IOException
import java.math.{BigDecimal, BigInteger}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64
import java.util.zip.CRC32

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.arrow.vector.types.{DateUnit, TimeUnit}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field}
import org.apache.spark.sql.types.{DataType, LongType, NullType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * What the statistics in the headers of a file's batches say of its columns, in the values that Spark has for them: the
 * JSON that `arrowipc.columns.statistics` describes. Nothing proves it.
 */
private[spark] final class Bounds(file: IpcFile, schema: StructType, options: ReadOptions) {
  import Bounds._

  private[this] val columns = mutable.HashMap.empty[String, Column]

  /** What statistics of columns of these names state: the CRC-32 of all paths. */
  private[this] val names = new CRC32
  names.update(paths(file.schema.getFields, "").mkString("\u0000").getBytes(UTF_8))

  /** Of the batch that was asked for last. */
  private[this] var found = JSON.missingNode
  private[this] var last = -1

  private def paths(fields: java.util.List[Field], prefix: String): Seq[String] =
    fields.asScala.toSeq.flatMap { field =>
      val below = field.getType.isInstanceOf[ArrowType.Struct] && field.getDictionary == null
      (prefix + field.getName) +: (if (below) paths(field.getChildren, s"$prefix${field.getName}.") else Nil)
    }

  /** What a filter may ask of a column in a batch; the name is as Spark's filters have it. */
  def known(batch: Int, name: String): Pruner.Known = {
    val column = this.column(name)
    if (column == null) return if (missing(name)) Pruner.Missing else Pruner.Nothing
    val all = statistics(batch)
    val one = all.path("columns").path(column.path)
    if (!sane(all, one)) return Pruner.Nothing
    val nulls = one.path("nulls").asLong(-1)
    // NaN is above all numbers.
    val nan = one.path("kind").asText == "float" && one.path("nan").asBoolean(true)
    Pruner.Known(nulls != all.path("rows").asLong(-2), nulls != 0, value(column, one, "min"),
      if (nan) null else value(column, one, "max"))
  }

  /** Whether no batch has a column of a name: it is null in all rows. */
  def missing(name: String): Boolean =
    name.indexOf('.') < 0 && !file.schema.getFields.asScala.exists(each => name.equalsIgnoreCase(each.getName))

  /** Those of a batch; none that a tool copied from a batch of other rows or columns. */
  def statistics(batch: Int): JsonNode = {
    if (last != batch) {
      last = batch
      found = JSON.missingNode
      try {
        val message = file.header(file.batches.get(batch))
        for (at <- 0 until message.customMetadataLength if message.customMetadata(at).key == Key) {
          val text = message.customMetadata(at).value
          if (text != null && text.length <= MostBytes) {
            val read = JSON.readTree(text)
            val own = read.path("rows").asLong(-1) == IpcFile.length(IpcFile.batch(message)) &&
              read.path("names").asLong(-1) == names.getValue && read.path("v").asInt == 1
            found = if (own) read else JSON.missingNode
          }
        }
      } catch { case _: IOException | _: RuntimeException => } // it is reported when it is read
    }
    found
  }

  /** The file's column that a name means; null where there is none. */
  def column(name: String): Column = columns.getOrElseUpdate(name, looked(name))

  private def looked(name: String): Column = {
    if (name.indexOf('`') >= 0) return Column(name, null, false)
    var fields = file.schema.getFields
    var target: DataType = schema
    var field: Field = null
    val path = name.split("\\.").map { part =>
      val own = Names.find(part, fields.asScala.map(_.getName).asJava)
      val struct = target match {
        case struct: StructType if own != null => struct
        case _ => return null
      }
      val wanted = Names.find(part, struct.fieldNames.toSeq.asJava)
      field = fields.asScala.find(_.getName == own).get
      target = if (wanted == null) NullType else struct(wanted).dataType
      fields = if (field.getType.isInstanceOf[ArrowType.Struct]) field.getChildren else java.util.List.of()
      own
    }.mkString(".")
    val stored = if (field.getType.isInstanceOf[ArrowType.RunEndEncoded]) field.getChildren.get(1) else field
    val same = SparkTypes.of(field, options, path) == target
    Column(path, if (same) Plan.stored(stored) else null, target == LongType)
  }
}

private[spark] object Bounds {
  /**
   * A column of the file, by the path of its statistics; null type: its values compare otherwise than Spark's;
   * `counts`: whether it is read as a number of nanoseconds.
   */
  final case class Column(path: String, kind: ArrowType, counts: Boolean)

  private val Key = "arrowipc:statistics"
  private val MostBytes = 1 << 24
  private val MostDigits = 80
  private val JSON = new ObjectMapper

  def sane(all: JsonNode, one: JsonNode): Boolean = {
    val (rows, nulls) = (all.path("rows"), one.path("nulls"))
    one.isObject && rows.isIntegralNumber && rows.longValue >= 0 && (nulls.isMissingNode ||
      nulls.isIntegralNumber && nulls.longValue <= rows.longValue && nulls.longValue >= 0)
  }

  /** A bound in the one form in which values compare; null: not known, or it does not compare. */
  def value(column: Column, one: JsonNode, end: String): Any = {
    val bound = one.path(end)
    val text = bound.asText
    try (column.kind, one.path("kind").asText) match {
      case _ if bound.isMissingNode || bound.isNull => null
      case (_: ArrowType.Bool, _) => if (bound.isBoolean) bound.booleanValue else null
      case (_: ArrowType.Utf8 | _: ArrowType.LargeUtf8 | _: ArrowType.Utf8View, "text") => UTF8String.fromString(text)
      case (_: ArrowType.Binary | _: ArrowType.LargeBinary | _: ArrowType.BinaryView | _: ArrowType.FixedSizeBinary,
          "binary") =>
        UTF8String.fromBytes(Base64.getDecoder.decode(text))
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
