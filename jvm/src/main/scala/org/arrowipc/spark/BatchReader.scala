package org.arrowipc.spark

import scala.collection.mutable.ArrayBuffer
import org.apache.arrow.flatbuf.{Message, RecordBatch}
import org.apache.arrow.memory.BufferAllocator
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.arrowipc.spark.ArrowIpcException.Limit
import org.arrowipc.spark.IpcFile.Block

/**
 * Reads the chosen columns of batches of one file or stream: fetches their bytes, and has vectors made of them.
 *
 * @param most limit of the estimated bytes that the rows of all batches take after Spark has copied them
 */
private[spark] class BatchReader(
    file: IpcFile, projection: Projection, decoder: MessageDecoder, slabs: Slabs, allocator: BufferAllocator,
    most: Long = Long.MaxValue) extends AutoCloseable {
  import BatchReader._

  private var copied = 0L

  private val whole = projection.whole
  private val dictionaries = new Dictionaries(file, allocator)({ (plan, part, memory) =>
    val message = file.header(part.block)
    val header = IpcFile.dictionaryBatch(message).data
    (header, load(plan, message, header, part.block, memory))
  })

  /** The chosen columns of a batch; valid until the next call. */
  def read(batch: Int): ColumnarBatch = {
    slabs.reset()
    val found = keep(batch)
    dictionaries.release()
    found
  }

  /** The chosen columns of a batch; valid until `slabs` is reset, or the reader closed. */
  def keep(batch: Int): ColumnarBatch =
    if (!projection.isFound) batchOf(Array.empty, file.rows(batch).toInt)
    else Metadata.guarded(s"batch $batch") {
      dictionaries.resolve(whole.columns, batch)
      val block = file.batches(batch)
      val message = file.header(block)
      val header = IpcFile.batch(message)
      val rows = IpcFile.length(header).toInt
      val columns = load(whole, message, header, block, slabs)
      for (column <- columns if column != null) {
        column.prove(column.length == rows, s"it has ${column.length} rows, and the batch $rows")
      }
      batchOf(columns, rows)
    }

  private def batchOf(columns: Array[Column], rows: Int): ColumnarBatch = {
    if (most < Long.MaxValue) {
      // Values of plain columns take about as many bytes as in the message, so only their slots are counted.
      val more = if (projection.expands) Expansion.bytes(columns, rows) else Expansion.slots(columns.length, rows)
      Limit.unless(more <= most - copied, "its rows take more than %d bytes in Spark", most)
      copied += more
    }
    new ColumnarBatch(projection.vectors(columns, rows), rows)
  }

  override def close(): Unit = dictionaries.close()

  private def load(plan: Plan.Whole, message: Message, header: RecordBatch, block: Block, memory: Slabs)
      : Array[Column] = decoder.columns(plan, message, header, dictionaries, memory)(fetch(_, block, memory))

  private def fetch(buffers: ArrayBuffer[Body.Wanted], block: Block, memory: Slabs): Unit = {
    val body = block.offset + block.metadataLength
    if (file.source.address == 0) read(buffers, body, memory)
    else buffers.foreach(each => each.put(file.source.address + body + each.offset, each.size))
  }

  private def read(buffers: ArrayBuffer[Body.Wanted], body: Long, memory: Slabs): Unit = {
    buffers.sortInPlaceWith(_.offset < _.offset)
    val ranges = new ArrayBuffer[Range]
    var total = 0L
    val places = buffers.map { each =>
      if (ranges.isEmpty || each.offset > ranges.last.end + GAP) {
        total = total + 63 & -64L
        ranges += new Range(each.offset, each.offset, total)
      }
      val range = ranges.last
      val grown = Math.max(0, each.offset + each.size - range.end)
      range.end += grown
      total += grown
      range.place + each.offset - range.start
    }
    val into = memory.take(total)
    ranges.foreach(range => file.source.read(body + range.start, range.end - range.start, into + range.place))
    for (i <- buffers.indices) buffers(i).put(into + places(i), buffers(i).size)
  }
}

private[spark] object BatchReader {
  /** Ranges with a gap of at most this many bytes are read as one: a seek would take more time than the gap. */
  private final val GAP = 1L << 16

  /** A range of a body that is read at once; `place` is its offset in the memory for all ranges. */
  private final class Range(val start: Long, var end: Long, val place: Long)

  /** A reader of a whole file with memory of its own. */
  def ofFile(file: IpcFile, wanted: StructType, options: ReadOptions, allocator: BufferAllocator): BatchReader = {
    val (decoder, slabs) = (new MessageDecoder(options), new Slabs(allocator))
    val projection = new Projection(file.schema, wanted, options, "the file")
    new BatchReader(file, projection, decoder, slabs, allocator) {
      override def close(): Unit = {
        super.close()
        decoder.close()
        slabs.close()
      }
    }
  }
}
