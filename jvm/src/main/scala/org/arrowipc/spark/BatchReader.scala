package org.arrowipc.spark

import com.github.luben.zstd.ZstdDecompressCtx
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import org.apache.arrow.flatbuf.{Buffer, Message, RecordBatch}
import org.apache.arrow.memory.{ArrowBuf, BufferAllocator, OutOfMemoryException}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.Platform
import org.arrowipc.spark.ArrowIpcException.{Format, Limit, Unsupported}
import org.arrowipc.spark.IpcFile.{Block, DictionaryBlock}
import org.arrowipc.spark.Plan.Layout._
import org.arrowipc.spark.vectors.{Converters, Vector, Vectors}

/**
 * Reads the chosen columns of batches of one file: ranges of the body, decompressed, proven, and as Spark's vectors.
 *
 * All memory is the reader's: a batch is valid until the next one is read.
 */
final class BatchReader(file: IpcFile, wanted: StructType, options: ReadOptions, allocator: BufferAllocator)
    extends AutoCloseable {
  import BatchReader._

  private val whole = Plan.of(file.schema.getFields)
  private val fields = wanted.fields
  /** How each field is made of the columns and the number of rows of a batch. */
  private val makers: Array[(Array[Column], Int) => Vector] = {
    val planner = new Converters(options)
    val names = new Names(whole.columns.map(_.path))
    fields.map { field =>
      val place = names.only(field.name, !field.nullable, "the file")
      if (place < 0) (_: Array[Column], rows: Int) => new Vectors.Nulls(field.dataType, rows)
      else {
        val convert = planner.plan(whole.columns(place), field.dataType, field.name)
        (columns: Array[Column], _: Int) => convert(columns(place))
      }
    }
  }
  private val slabs = new Array[ArrowBuf](2)
  private val zstd = new ZstdDecompressCtx
  private val dictionaries = mutable.HashMap.empty[Long, Known]
  private var dictionaryBytes = 0L

  /** The chosen columns of a batch; valid until the next call. */
  def read(batch: Int): ColumnarBatch =
    if (!whole.columns.exists(_.wanted)) {
      vectors(Array.empty, file.rows(batch).toInt)
    } else {
      Metadata.guarded(s"batch $batch") {
        resolve(whole.columns, batch)
        val block = file.batches(batch)
        val message = file.header(block)
        val header = IpcFile.batch(message)
        val rows = IpcFile.length(header).toInt
        val columns = load(whole, message, header, block, slabs)
        for (column <- columns if column != null) {
          column.prove(column.length == rows, s"it has ${column.length} rows, and the batch $rows")
        }
        vectors(columns, rows)
      }
    }

  private def vectors(columns: Array[Column], rows: Int): ColumnarBatch = {
    val found = Array.tabulate[ColumnVector](fields.length) { i =>
      val vector = makers(i)(columns, rows)
      vector.check(0, rows)
      if (!fields(i).nullable) Vectors.refuseNulls(vector, 0, rows, fields(i).name)
      vector
    }
    new ColumnarBatch(found, rows)
  }

  override def close(): Unit = {
    zstd.close()
    slabs.mapInPlace { slab => if (slab != null) slab.close(); null }
    dictionaries.values.foreach(release)
    dictionaries.clear()
  }

  // -- one message ---------------------------------------------------------------------------------------------

  /** The wanted columns of a message, all their sizes and contents proven; null for the others. */
  private def load(plan: Plan.Whole, message: Message, header: RecordBatch, block: Block, memory: Array[ArrowBuf])
      : Array[Column] = {
    val body = new Body(plan, message, header)
    fetch(body.buffers, block, memory)
    val codec = codecOf(header, message)
    if (codec >= 0) decompress(body.buffers, codec, memory)
    for (column <- body.columns if column != null) {
      column.checkSizes()
      attach(column)
      if (options.validate) {
        Validator.check(column)
        Expansion.check(column, message.bodyLength + dictionaryBytes)
      }
    }
    body.columns
  }

  private def attach(column: Column): Unit = {
    if (column.plan.dictionary != null) {
      val known = dictionaries.get(column.plan.dictionaryId)
      column.prove(known.nonEmpty || column.nulls == column.length,
        s"its dictionary ${column.plan.dictionaryId} is not there")
      column.dictionary = known.fold(new Column.Dictionary(Array.empty))(_.values)
    }
    column.children.foreach(child => if (child != null) attach(child))
  }

  // -- bytes ---------------------------------------------------------------------------------------------------

  private def allocate(memory: Array[ArrowBuf], slab: Int, size: Long): ArrowBuf = {
    val found = memory(slab)
    if (found == null || found.capacity < size || found.capacity / 4 > size + GAP) {
      memory(slab) = null
      if (found != null) found.close()
      try memory(slab) = allocator.buffer(Math.max(size, 64))
      catch {
        case error @ (_: OutOfMemoryException | _: OutOfMemoryError) =>
          throw new Limit(s"a batch needs $size bytes, more than this task has left: ${error.getMessage}; " +
            "give the executor more memory, or write shorter batches", error)
      }
    }
    memory(slab)
  }

  private def fetch(buffers: ArrayBuffer[Wanted], block: Block, memory: Array[ArrowBuf]): Unit = {
    buffers.sortInPlaceWith(_.offset < _.offset)
    val ranges = new ArrayBuffer[Range]
    var total = 0L
    buffers.foreach { each =>
      if (ranges.isEmpty || each.offset > ranges.last.end + GAP) {
        total = aligned(total)
        ranges += new Range(each.offset, total)
      }
      val range = ranges.last
      val grown = Math.max(0, each.offset + each.size - range.end)
      range.end += grown
      total += grown
      each.place = range.place + each.offset - range.start
    }
    val into = allocate(memory, 0, total)
    val body = block.offset + block.metadataLength
    ranges.foreach(range => file.source.read(body + range.start, range.end - range.start, into, range.place))
    buffers.foreach(each => each.put(into.memoryAddress + each.place, each.size))
  }

  private def decompress(buffers: ArrayBuffer[Wanted], codec: Int, memory: Array[ArrowBuf]): Unit = {
    var claimed, stored, reserved = 0L
    buffers.foreach { each =>
      each.column.prove(each.size >= Codec.PREFIX,
        s"a compressed buffer of ${each.size} bytes has no room for its length")
      stored += each.size
      val claim = each.claim
      if (claim == -1 || (claim == 0 && each.size == Codec.PREFIX)) {
        each.put(each.frame, each.size - Codec.PREFIX) // stored as it is
      } else {
        Codec.prove(each.column, codec, each.frame, each.size - Codec.PREFIX, claim, each.known)
        claimed += claim
        reserved += aligned(claim)
        Limit.unless(claimed <= ReadOptions.DECOMPRESSED_BYTES, "a batch claims more than 2 GiB of uncompressed bytes")
      }
    }
    Limit.unless(claimed <= stored * ReadOptions.DECOMPRESSED_RATIO + ReadOptions.DECOMPRESSED_SLACK,
      "a batch claims %d uncompressed bytes in %d", claimed, stored)
    var place = allocate(memory, 1, reserved).memoryAddress
    buffers.foreach { each =>
      if (each.length == each.size) {
        val claim = each.claim
        Codec.decompress(each.column, codec, each.frame, each.size - Codec.PREFIX, place, claim, zstd)
        each.put(place, claim)
        place += aligned(claim)
      }
    }
  }

  // -- dictionaries --------------------------------------------------------------------------------------------

  /** Read the dictionaries that some columns need, as they are for a batch. */
  private def resolve(plans: collection.Seq[Plan], batch: Int): Unit = for (plan <- plans if plan.wanted) {
    if (plan.dictionary != null) {
      resolve(plan.dictionary.columns, batch)
      resolve(plan.dictionaryId, plan.dictionary, batch)
    } else {
      resolve(plan.children, batch)
    }
  }

  private def resolve(id: Long, plan: Plan.Whole, batch: Int): Unit = {
    val parts = new ArrayBuffer[DictionaryBlock]
    for (block <- file.dictionaries.iterator.takeWhile(_.before <= batch) if block.id == id) {
      if (!block.delta) parts.clear()
      else if (parts.isEmpty) throw new Format(s"dictionary $id begins with a delta")
      parts += block
    }
    if (parts.nonEmpty) {
      // In the map while it grows, so that its memory is released in any case.
      val known = dictionaries.getOrElseUpdate(id, new Known)
      if (known.values == null || known.parts != parts) {
        known.values = null
        if (!parts.startsWith(known.parts)) release(known)
        for (each <- parts.drop(known.parts.size)) {
          known.columns += part(plan, each, known.memory)
          known.parts += each
        }
        known.values = new Column.Dictionary(known.columns.toArray)
        Limit.unless(known.values.length <= Int.MaxValue, "dictionary %d has %d values", id, known.values.length)
      }
    }
  }

  private def part(plan: Plan.Whole, part: DictionaryBlock, memory: ArrayBuffer[ArrowBuf]): Column = {
    val own = new Array[ArrowBuf](2)
    val message = file.header(part.block)
    val header = IpcFile.dictionaryBatch(message).data
    val length = IpcFile.length(header)
    val column =
      try load(plan, message, header, part.block, own)(0)
      finally for (each <- own if each != null) {
        memory += each
        dictionaryBytes += each.capacity
      }
    column.prove(column.length == length, s"a dictionary has ${column.length} values, and its batch $length rows")
    Limit.unless(dictionaryBytes <= ReadOptions.DICTIONARY_BYTES, "dictionaries of %d bytes", dictionaryBytes)
    column
  }

  private def release(known: Known): Unit = {
    known.memory.foreach { each =>
      dictionaryBytes -= each.capacity
      each.close()
    }
    known.memory.clear()
    known.columns.clear()
    known.parts.clear()
  }
}

private object BatchReader {
  /** Ranges that lie closer together are read as one: seeking costs more than reading that much. */
  private final val GAP = 1L << 16
  private final val EXPERIMENTAL = "ARROW:experimental_compression"

  /** The parts of a dictionary that have been read, in their memory; no values: not all of those asked for are. */
  private final class Known {
    val parts = new ArrayBuffer[DictionaryBlock]
    val columns = new ArrayBuffer[Column]
    val memory = new ArrayBuffer[ArrowBuf]
    var values: Column.Dictionary = _
  }

  /** Bytes of a body that are read at once, and where in memory they come to lie. */
  private final class Range(val start: Long, val place: Long) {
    var end: Long = start
  }

  /** A buffer that a column asks for, where it lies in the body, and where in the memory that this is read into. */
  private final class Wanted(val column: Column, number: Int, val offset: Long, val size: Long) {
    var place = 0L

    def put(address: Long, length: Long): Unit = {
      column.address(number) = if (length == 0) 0 else address
      column.size(number) = length
    }

    def length: Long = column.size(number)

    /** The bytes that a compressed buffer states at its start, and where its frame follows. */
    def claim: Long = Platform.getLong(null, frame - Codec.PREFIX)
    def frame: Long = column.address(number) + Codec.PREFIX

    /** Bytes that the column's length asks for; -1: values decide. */
    def known: Long = column.plan.layout match {
      case FIXED | VIEW if number == 1 => column.length * Math.max(1, column.plan.width)
      case FIXED | VIEW | BITS if number < 2 => column.length / 8
      case _ => -1
    }
  }

  private def aligned(size: Long): Long = size + 63 & -64L

  /** Where the wanted buffers of a message lie, once its vectors are as long as the schema asks for. */
  private final class Body(plan: Plan.Whole, message: Message, header: RecordBatch) {
    val buffers = new ArrayBuffer[Wanted]
    private val old = message.version == 3 // V4, in which unions have bitmaps
    /** How many data buffers the columns of views before each have. */
    private val before = new Array[Long](header.variadicBufferCountsLength + 1)
    private var sum = 0L
    checkCounts()
    val columns: Array[Column] = columnsOf(plan.columns)
    Limit.unless(sum <= message.bodyLength || sum - message.bodyLength <= ReadOptions.OVERLAP_BYTES,
      "buffers of %d bytes share a body of %d", sum, message.bodyLength)

    private def checkCounts(): Unit = {
      val views = before.length - 1
      val all = plan.total
      Format.unless(views == all.views, "a batch has %d variadic buffer counts, expected %d", views, all.views)
      for (i <- 0 until views) {
        val count = header.variadicBufferCounts(i)
        Format.unless(0 <= count && count <= header.buffersLength - before(i),
          "a column of views has %d data buffers", count)
        before(i + 1) = before(i) + count
      }
      val buffers = all.buffers + before(views) + (if (old) all.unions else 0)
      Format.unless(header.nodesLength == all.nodes && header.buffersLength == buffers,
        "a batch has %d nodes and %d buffers, and its schema asks for %d and %d",
        header.nodesLength, header.buffersLength, all.nodes, buffers)
    }

    private def columnsOf(plans: collection.Seq[Plan]): Array[Column] = {
      val columns = new Array[Column](plans.length)
      for (i <- columns.indices if plans(i).wanted) columns(i) = columnOf(plans(i))
      columns
    }

    private def columnOf(plan: Plan): Column = {
      val first = plan.first
      val node = header.nodes(first.nodes)
      val union = plan.layout == SPARSE || plan.layout == DENSE
      val bitmaps = if (old) first.unions + (if (union) 1 else 0) else 0
      val start = first.buffers + before(first.views).toInt + bitmaps
      val data = if (plan.layout == VIEW) (before(first.views + 1) - before(first.views)).toInt else 0
      val column = new Column(plan, node.length, node.nullCount, data, columnsOf(plan.children))
      column.prove(column.length >= 0 && -1 <= column.nulls && column.nulls <= column.length,
        s"a node of ${column.length} elements, ${column.nulls} of them null")
      column.prove(!old || !union || column.nulls <= 0, "a union with nulls of its own")
      for (k <- column.size.indices) want(column, k, header.buffers(start + k))
      column
    }

    private def want(column: Column, number: Int, buffer: Buffer): Unit = {
      val offset = buffer.offset
      val size = buffer.length
      val body = message.bodyLength
      column.prove(size == 0 || 0 <= size && 0 <= offset && offset <= body && size <= body - offset,
        s"buffer $number, $size bytes at $offset, is not inside the body of $body")
      if (size > 0) {
        buffers += new Wanted(column, number, offset, size)
        sum += size
      }
    }
  }

  /** What compresses the buffers of a message; -1: nothing. */
  private def codecOf(header: RecordBatch, message: Message): Int =
    if (header.compression != null) {
      val codec = header.compression.codec
      if (codec < 0 || codec > 1 || header.compression.method != 0) {
        throw new Unsupported(s"a batch is compressed by the unknown codec $codec")
      }
      codec
    } else {
      Metadata.pairs(message).find(_.key == EXPERIMENTAL).fold(-1) { pair =>
        if ("zstd".equalsIgnoreCase(pair.value)) Codec.ZSTD else Codec.LZ4
      }
    }
}
