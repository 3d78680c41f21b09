package org.arrowipc.spark

import java.math.{BigDecimal, BigInteger}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64
import java.util.zip.CRC32
import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.arrow.vector.{DecimalVector, FieldVector, VectorSchemaRoot}
import org.apache.arrow.vector.complex.StructVector
import org.apache.arrow.vector.types.FloatingPointPrecision.SINGLE
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, Schema}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String
import scala.jdk.CollectionConverters._

/** Makes the statistics in the header of a batch: the JSON that `arrowipc.filters.statistics` describes. */
private final class Statistics(schema: Schema) {
  import Statistics._

  private val paths = Statistics.paths(schema.getFields, "")
  private val twice = paths.diff(paths.distinct).toSet
  private val mark = Statistics.mark(schema)

  /** The statistics of the batch that is in the vectors of `root`. */
  def of(root: VectorSchemaRoot): String = {
    val found = JSON.createObjectNode.put("v", 1).put("rows", root.getRowCount).put("names", mark)
    describe(root.getFieldVectors, "", found.putObject("columns"))
    found.toString
  }

  private def describe(vectors: java.util.List[_ <: FieldVector], prefix: String, into: ObjectNode): Unit =
    vectors.forEach { vector =>
      val path = prefix + vector.getName
      if (!twice.contains(path)) {
        val entry = into.putObject(path)
        entry.put("nulls", vector.getNullCount)
        bounds(vector, vector.getField.getType, entry)
      }
      vector match {
        case struct: StructVector => describe(struct.getChildrenFromFields, s"$path.", into)
        case _ =>
      }
    }
}

private object Statistics {
  /** The key of the statistics in a header's metadata. */
  val KEY = "arrowipc:statistics"
  val JSON = new ObjectMapper
  /** Integers up to this one are exact as JSON numbers in every language; larger ones are written as text. */
  private val SAFE = BigInteger.ONE.shiftLeft(53)
  /** The most bytes of a bound: longer texts and binary values are cut. */
  private val CUT = 64

  private def paths(fields: java.util.List[Field], prefix: String): Seq[String] =
    fields.asScala.toSeq.flatMap { field =>
      val below = field.getType.isInstanceOf[ArrowType.Struct] && field.getDictionary == null
      (prefix + field.getName) +: (if (below) paths(field.getChildren, s"$prefix${field.getName}.") else Nil)
    }

  /** The CRC-32 of all columns' paths, by which a reader knows of which columns statistics are. */
  def mark(schema: Schema): Long = {
    val sum = new CRC32
    sum.update(paths(schema.getFields, "").mkString("\u0000").getBytes(UTF_8))
    sum.getValue
  }

  /** Put the bounds of a column's values into its `entry`. */
  private def bounds(vector: FieldVector, kind: ArrowType, entry: ObjectNode): Unit = kind match {
    case real: ArrowType.FloatingPoint => reals(vector, real.getPrecision == SINGLE, entry)
    case _ if vector.getNullCount == vector.getValueCount => // there are no values
    case _: ArrowType.Int | _: ArrowType.Date | _: ArrowType.Time | _: ArrowType.Timestamp | _: ArrowType.Duration =>
      val (low, high) = whole(vector)
      integers(BigInteger.valueOf(low), BigInteger.valueOf(high), entry)
    case _: ArrowType.Bool =>
      val (low, high) = whole(vector)
      entry.put("kind", "bool").put("min", low == 1).put("max", high == 1)
    case _: ArrowType.Decimal =>
      val decimals = vector.asInstanceOf[DecimalVector]
      val (low, high) = ends[BigDecimal](vector, decimals.getObject(_), (one, other) => one.compareTo(other))
      integers(low.unscaledValue, high.unscaledValue, entry)
    case _: ArrowType.Utf8 =>
      val (low, high) = texts(vector, entry)
      entry.put("kind", "text").put("min", lower(low))
      (if (high.numBytes > CUT) next(lower(high)) else Some(high.toString)).foreach(entry.put("max", _))
    case _: ArrowType.Binary =>
      val (first, last) = texts(vector, entry.put("kind", "binary"))
      val (low, high) = (first.getBytes, last.getBytes)
      entry.put("min", base64(low.take(CUT)))
      (if (high.length > CUT) next(high.take(CUT)) else Some(high)).foreach(each => entry.put("max", base64(each)))
    case _ =>
  }

  private def base64(bytes: Array[Byte]): String = Base64.getEncoder.encodeToString(bytes)

  private def bit(address: Long, row: Int): Boolean =
    (Platform.getByte(null, address + (row >> 3)) >> (row & 7) & 1) != 0

  /** Call `use` for each row that is not null. */
  private def each(vector: FieldVector)(use: Int => Unit): Unit = {
    val valid = if (vector.getNullCount == 0) 0 else vector.getValidityBuffer.memoryAddress
    val rows = vector.getValueCount
    var row = 0
    while (row < rows) {
      if (valid == 0 || bit(valid, row)) use(row)
      row += 1
    }
  }

  private def integers(low: BigInteger, high: BigInteger, entry: ObjectNode): Unit = {
    entry.put("kind", "int")
    for ((end, value) <- Seq("min" -> low, "max" -> high)) {
      if (value.abs.compareTo(SAFE) <= 0) entry.put(end, value.longValue) else entry.put(end, value.toString)
    }
  }

  /** The minimum and maximum of the stored numbers, dates and times, and of booleans as 0 and 1. */
  private def whole(vector: FieldVector): (Long, Long) = {
    val address = vector.getDataBuffer.memoryAddress
    val width = vector.getField.getType match {
      case int: ArrowType.Int => int.getBitWidth / 8
      case _: ArrowType.Bool => 0
      case _: ArrowType.Date => 4
      case _ => 8
    }
    var low = Long.MaxValue
    var high = Long.MinValue
    each(vector) { row =>
      val value = width match {
        case 0 => if (bit(address, row)) 1L else 0L
        case 1 => Platform.getByte(null, address + row).toLong
        case 2 => Platform.getShort(null, address + 2L * row).toLong
        case 4 => Platform.getInt(null, address + 4L * row).toLong
        case _ => Platform.getLong(null, address + 8L * row)
      }
      if (value < low) low = value
      if (value > high) high = value
    }
    (low, high)
  }

  private def reals(vector: FieldVector, single: Boolean, entry: ObjectNode): Unit = {
    val address = vector.getDataBuffer.memoryAddress
    var low = Double.PositiveInfinity
    var high = Double.NegativeInfinity
    var nan, any = false
    each(vector) { row =>
      val value = if (single) Platform.getFloat(null, address + 4L * row).toDouble
        else Platform.getDouble(null, address + 8L * row)
      if (value.isNaN) nan = true else any = true
      if (value < low) low = value
      if (value > high) high = value
    }
    if (any) {
      // 0.0 and -0.0 are equal, and the first one was kept: -0.0 as minimum and 0.0 as maximum bound both.
      entry.put("kind", "float")
      for ((end, value) <- Seq("min" -> (if (low == 0) -0.0 else low), "max" -> (if (high == 0) 0.0 else high))) {
        if (value.isInfinite) entry.put(end, if (value > 0) "inf" else "-inf") else entry.put(end, value)
      }
    }
    entry.put("nan", nan)
  }

  private def ends[T](vector: FieldVector, value: Int => T, order: (T, T) => Int): (T, T) = {
    var low, high: T = null.asInstanceOf[T]
    each(vector) { row =>
      val found = value(row)
      if (low == null || order(found, low) < 0) low = found
      if (high == null || order(found, high) > 0) high = found
    }
    (low, high)
  }

  private def texts(vector: FieldVector, entry: ObjectNode): (UTF8String, UTF8String) = {
    val (offsets, data) = (vector.getOffsetBuffer.memoryAddress, vector.getDataBuffer.memoryAddress)
    def start(row: Int) = Platform.getInt(null, offsets + 4L * row)
    def text(row: Int) = UTF8String.fromAddress(null, data + start(row), start(row + 1) - start(row))
    val (low, high) = ends[UTF8String](vector, text, (one, other) => one.binaryCompare(other))
    if (low.numBytes > CUT) entry.put("min_exact", false)
    if (high.numBytes > CUT) entry.put("max_exact", false)
    (low, high)
  }

  /** Cut a text to a lower bound: its first bytes, only whole characters. */
  private def lower(value: UTF8String): String = {
    val bytes = value.getBytes
    val end = if (bytes.length <= CUT) bytes.length else bytes.lastIndexWhere(byte => (byte & 0xc0) != 0x80, CUT)
    new String(bytes, 0, math.max(end, 0), UTF_8)
  }

  /** The smallest text above all texts that begin with `start`, of at most CUT bytes; None if there is none. */
  private def next(start: String): Option[String] = {
    val characters = start.codePoints.toArray
    characters.indices.reverse.iterator.filter(characters(_) < 0x10ffff).map { last =>
      val more = if (characters(last) == 0xd7ff) 0xe000 else characters(last) + 1 // surrogates are not characters
      new String(characters, 0, last) + Character.toString(more)
    }.find(_.getBytes(UTF_8).length <= CUT)
  }

  /** The smallest binary value above all that begin with `start`; None if there is none. */
  private def next(start: Array[Byte]): Option[Array[Byte]] = {
    val last = start.lastIndexWhere(_ != -1)
    if (last < 0) None else Some(start.take(last) :+ (start(last) + 1).toByte)
  }
}
