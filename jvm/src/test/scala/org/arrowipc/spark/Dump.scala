package org.arrowipc.spark

import java.io.PrintStream
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util.HexFormat
import scala.collection.mutable.ArrayBuffer
import scala.io.Source.fromInputStream
import scala.jdk.CollectionConverters._
import scala.util.Using
import org.apache.arrow.memory.{BufferAllocator, RootAllocator}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{SpecializedGetters, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Reads files, whose names are lines of stdin, and prints one answer for each, for tests.
 *
 * A line has a path and options, separated by tabs. The option `schema` is Spark's JSON of the wanted columns, `with`
 * names another file whose schema is merged with that of the path, and `values=true` asks for the values. The
 * answers are `ok ROWS`, `ok [[value, ...], ...]` or `error CLASS: message`, after the milliseconds of processor time
 * that the file took and the peak of the process's memory in KiB. Rows are copied out of the batches as in Spark.
 */
object Dump {
  private val MEMORY = 512L << 20
  /** How many rows of a batch are copied at most, and how many batches of a file are read. */
  private val ROWS = 100
  private val BATCHES = 100

  def main(arguments: Array[String]): Unit = {
    val out = new PrintStream(System.out, true, UTF_8)
    // If Spark has TIME, the Python side returns it in all sessions.
    SQLConf.get.setConfString("spark.sql.timeType.enabled", SparkTypes.TIME.isSuccess.toString)
    for (line <- fromInputStream(System.in)(UTF_8).getLines()) {
      val start = used
      val found = attempt(line.split("\t")).replaceAll("\\p{Cntrl}", " ")
      val peak = Files.readString(Path.of("/proc/self/status")).replaceAll("(?s).*VmHWM:\\s*(\\d+).*", "$1")
      out.println(s"${used - start} $peak $found")
    }
  }

  /** Milliseconds of processor time, which does not depend on the machine's other load. */
  private def used: Long = ProcessHandle.current.info.totalCpuDuration.get.toMillis

  private def attempt(line: Array[String]): String =
    try {
      val asked = line.tail.map(_.split("=", 2)).map(pair => pair(0) -> pair(1)).toMap
      // Closing the allocator fails if a reader has not freed its memory.
      "ok " + Using.resource(new RootAllocator(MEMORY))(read(line(0), asked, _))
    } catch {
      case error: Throwable => s"error ${error.getClass.getSimpleName}: ${error.getMessage}"
    }

  private def read(path: String, asked: Map[String, String], allocator: BufferAllocator): String = {
    val options = new ReadOptions(new CaseInsensitiveStringMap(asked.asJava))
    val texts = new ArrayBuffer[String]
    var rows = 0L
    Using.resource(IpcFile.open(Source.local(path), options)) { file =>
      val schema = asked.get("schema").map(DataType.fromJson(_).asInstanceOf[StructType])
        .orElse(asked.get("with").map(other => Unify.merged(schemaOf(path, options), schemaOf(other, options), false)))
        .getOrElse(SparkTypes.schema(file.schema, options))
      val copy: InternalRow => Unit = if (asked.contains("values")) row => texts += struct(row, schema) else {
        val projection = UnsafeProjection.create(schema)
        row => projection(row)
      }
      Using.resource(BatchReader.ofFile(file, schema, options, allocator)) { reader =>
        for (i <- 0 until Math.min(BATCHES, file.batches.size)) {
          val batch = reader.read(i)
          batch.rowIterator.asScala.take(ROWS).foreach(copy)
          rows += batch.numRows
        }
        file.fault.foreach { fault =>
          throw new ArrowIpcException.Format(s"$rows rows, then ${fault.error.getMessage}")
        }
      }
    }
    if (asked.contains("values")) listed(texts) else rows.toString
  }

  private def schemaOf(path: String, options: ReadOptions): StructType =
    Using.resource(IpcFile.open(Source.local(path), options))(file => SparkTypes.schema(file.schema, options))

  private def listed(values: Iterable[String]): String = values.mkString("[", ", ", "]")

  private def struct(row: InternalRow, of: StructType): String =
    listed(of.fields.indices.map(i => text(row, i, of(i).dataType)))

  /** JSON of a value: moments as numbers, decimals as text, bytes and floating-point numbers as hexadecimal digits. */
  private def text(row: SpecializedGetters, at: Int, of: DataType): String = of match {
    case _ if row.isNullAt(at) => "null"
    case struct: StructType => this.struct(row.getStruct(at, struct.length), struct)
    case array: ArrayType => listed(elements(row.getArray(at), array.elementType))
    case map: MapType =>
      val keys = elements(row.getMap(at).keyArray(), map.keyType)
      val values = elements(row.getMap(at).valueArray(), map.valueType)
      listed(keys.zip(values).map { case (key, value) => s"[$key, $value]" })
    case kind: DecimalType => s""""${row.getDecimal(at, kind.precision, kind.scale).toJavaBigDecimal.toPlainString}""""
    case FloatType => s""""${java.lang.Float.floatToRawIntBits(row.getFloat(at)).toHexString}""""
    case DoubleType => s""""${java.lang.Double.doubleToRawLongBits(row.getDouble(at)).toHexString}""""
    case BinaryType => s""""${HexFormat.of.formatHex(row.getBinary(at))}""""
    case _: StringType => s""""${row.getUTF8String(at).toString.replace("\\", "\\\\").replace("\"", "\\\"")}""""
    // `get` of the rows of Spark's vectors does not support TIME.
    case time if time.typeName.startsWith("time(") => row.getLong(at).toString
    case _ => row.get(at, of).toString
  }

  private def elements(array: ArrayData, of: DataType): Seq[String] =
    (0 until array.numElements()).map(text(array, _, of))
}
