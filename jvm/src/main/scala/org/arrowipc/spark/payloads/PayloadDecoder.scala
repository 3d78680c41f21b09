package org.arrowipc.spark
package payloads

import java.util
import scala.collection.mutable.ArrayBuffer
import org.apache.arrow.memory.BufferAllocator
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.sql.vectorized.{ColumnarArray, ColumnarBatch}
import org.arrowipc.spark.ArrowIpcException.{Limit, Usage}
import org.arrowipc.spark.vectors.{Vector, Vectors}

/**
 * Decodes cells that hold a stream, a file, or bare messages of a given schema: one after the other, in memory that
 * is reused. The rows of a cell are valid until the next cell is decoded.
 */
private[payloads] final class PayloadDecoder(wanted: StructType, options: PayloadOptions, memory: BufferAllocator)
    extends AutoCloseable {
  import PayloadDecoder._

  private val fields = SparkSchema.plain(wanted).asInstanceOf[StructType]
  private val whole = if (options.errorColumn.isEmpty) fields else fields.add(options.errorColumn, StringType)
  private val slabs = new Slabs(memory)
  private val decoder = new MessageDecoder(options.read)
  private var reader: BatchReader = _
  /** The rows: one vector whose members are replaced, because Spark walks through the type of each new vector. */
  private val found = new Vectors.Members(whole, 0, Array.empty)
  /** The schemas with which cells began, the last used one first. */
  private val known = new ArrayBuffer[Known]
  private val given: Known = if (options.schema.isEmpty) null else {
    val schema = IpcFile.open(new Source.Cell(options.schema, 0), options.read).schema
    new Known(Array.empty, schema, projectionOf(schema))
  }

  /** The rows of a cell. */
  def rows(cell: Array[Byte]): ColumnarArray = Metadata.guarded("the payload") {
    release()
    val from = Math.min(options.prefix, cell.length)
    val source = new Source.Copied(cell, from, slabs.take(cell.length - from))
    val (file, projection) = open(cell, from, source)
    file.fault.foreach(fault => throw fault.error)
    // Spark's generated code copies all rows of a cell before it passes on the first.
    val most = if (options.read.validate) COPIED_BYTES + COPIED_TIMES * source.size else Long.MaxValue
    reader = new BatchReader(file, projection, decoder, slabs, memory, most)
    joined(Array.tabulate(file.batches.length)(reader.keep))
  }

  private def open(cell: Array[Byte], from: Int, source: Source): (IpcFile, Projection) = {
    val place = known.indexWhere(_.begins(cell, from))
    if (place >= 0) {
      if (place > 0) known.prepend(known.remove(place))
      val found = known.head
      (IpcFile.rest(source, found.schema, found.message.length), found.projection)
    } else {
      val file = IpcFile.open(source, options.read, if (given == null) null else given.schema)
      if (given != null && (file.schema eq given.schema)) (file, given.projection)
      else {
        val projection = projectionOf(file.schema)
        if (file.schemaEnd > 0) {
          val message = util.Arrays.copyOfRange(cell, from, from + file.schemaEnd.toInt)
          known.prepend(new Known(message, file.schema, projection))
          while (known.length > MOST_SCHEMAS || known.iterator.map(_.message.length.toLong).sum > MOST_BYTES) {
            known.remove(known.length - 1)
          }
        }
        (file, projection)
      }
    }
  }

  private def projectionOf(schema: Schema): Projection = {
    val projection = new Projection(schema, fields, options.read, "the payload")
    // A payload without any of the fields is more likely of another kind than a payload without values.
    if (!projection.isFound && fields.nonEmpty) throw new Usage(
      s"the payload has no column '${fields.head.name}'; its columns are ${projection.whole.columns.map(_.path)
        .take(20).mkString("'", "', '", "'")}")
    projection
  }

  private def joined(batches: Array[ColumnarBatch]): ColumnarArray = {
    val rows = batches.foldLeft(0L)(_ + _.numRows)
    if (rows > Int.MaxValue) throw new Limit(s"a payload of $rows rows")
    found.members = Array.tabulate(whole.length) { i =>
      if (i == fields.length || batches.isEmpty) new Vectors.Nulls(whole(i).dataType, rows)
      else if (batches.length == 1) batches(0).column(i).asInstanceOf[Vector]
      else new Vectors.Joined(whole(i).dataType, batches.map(_.column(i).asInstanceOf[Vector]), rows)
    }
    new ColumnarArray(found, 0, rows.toInt)
  }

  private def release(): Unit = {
    if (reader != null) reader.close()
    reader = null
    slabs.reset()
  }

  override def close(): Unit = {
    release()
    slabs.close()
    decoder.close()
  }
}

private object PayloadDecoder {
  /** How many schemas are kept, and the bytes of their messages; payloads of other schemas are planned each time. */
  private final val MOST_SCHEMAS = 64
  private final val MOST_BYTES = 4L << 20
  /** The rows of a payload may take COPIED_BYTES, plus COPIED_TIMES the bytes of the payload. */
  private final val COPIED_BYTES = 256L << 20
  private final val COPIED_TIMES = 64L

  /** A schema, its message, and the projection that is planned for it. */
  private final class Known(val message: Array[Byte], val schema: Schema, val projection: Projection) {
    def begins(cell: Array[Byte], from: Int): Boolean = cell.length - from >= message.length &&
      util.Arrays.equals(cell, from, from + message.length, message, 0, message.length)
  }
}
