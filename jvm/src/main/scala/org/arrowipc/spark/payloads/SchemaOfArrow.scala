package org.arrowipc.spark
package payloads

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction
import org.apache.spark.sql.types.{BinaryType, DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** `schema_of_arrow(payload)` returns Spark's schema of a payload as JSON, which `from_arrow` takes. */
private[spark] final class SchemaOfArrow(text: Seq[String]) extends ScalarFunction[UTF8String] {
  private val options = new PayloadOptions(FromArrow.pairsOf(text))

  override def inputTypes: Array[DataType] = Array(BinaryType)
  override def resultType: DataType = StringType
  override def name: String = SchemaOfArrow.NAME

  override def produceResult(input: InternalRow): UTF8String = invoke(input.getBinary(0))

  /** Spark finds and calls this method by its name. */
  def invoke(cell: Array[Byte]): UTF8String = if (cell == null) null else try {
    FileBatches.named(s"column '${options.column}'") {
      // Only metadata are read, so the cell is not copied.
      val source = new Source.Cell(cell, Math.min(options.prefix, cell.length))
      UTF8String.fromString(SparkTypes.schema(IpcFile.open(source, options.read).schema, options.read).json)
    }
  } catch { case _: ArrowIpcException if options.onError == "null" => null }
}

private[spark] object SchemaOfArrow {
  final val NAME = "schema_of_arrow"
}
