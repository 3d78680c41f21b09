package org.arrowipc.spark

import java.{util => ju}

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.arrow.flatbuf.{Message, RecordBatch}
import org.apache.arrow.memory.{ArrowBuf, BufferAllocator, OutOfMemoryException}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.Platform

import org.arrowipc.spark.ArrowIpcException.{Format, Limit, Unsupported}
import org.arrowipc.spark.IpcFile.{Block, DictionaryBlock}
import org.arrowipc.spark.Plan.Layout._

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
  private val chosen = new ju.ArrayList[Plan]
  private val converters = new Array[Converters.Converter](fields.length)
  /** Which of the chosen columns a field is; -1: the file has it not. */
  private val places = Array.fill(fields.length)(-1)
  private val slabs = new Array[ArrowBuf](2)
  private val dictionaries = mutable.HashMap.empty[Long, Known]
  private var dictionaryBytes = 0L
  choose()

  private def choose(): Unit = {
    val planner = new Converters(options)
    val columns = new Converters.ByName(whole.columns, whole.columns.stream.map[String](_.path).toList, "the file")
    val known = mutable.HashMap.empty[Plan, Int]
    for (i <- fields.indices) {
      val plan = columns.find(fields(i).name, !fields(i).nullable)
      if (plan != null) {
        converters(i) = planner.plan(plan, fields(i).dataType, fields(i).name)
        places(i) = known.getOrElseUpdate(plan, chosen.size)
        if (places(i) == chosen.size) chosen.add(plan)
      }
    }
  }

  /** The chosen columns of a batch; valid until the next call. */
  def read(batch: Int): ColumnarBatch =
    if (chosen.isEmpty) {
      vectors(Array.empty, file.rows(batch).toInt)
    } else {
      Metadata.guarded(s"batch $batch", () => {
        resolve(chosen, batch)
        val block = file.batches.get(batch)
        val message = file.header(block)
        val header = IpcFile.batch(message)
        val rows = IpcFile.length(header).toInt
        val columns = load(whole, chosen, header, message, block, slabs)
        columns.find(_.length != rows).foreach { column =>
          throw column.fault(s"it has ${column.length} rows, and the batch $rows")
        }
        vectors(columns, rows)
      })
    }

  private def vectors(columns: Array[Column], rows: Int): ColumnarBatch = {
    val found = Array.tabulate[ColumnVector](fields.length) { i =>
      val vector: Vector = if (places(i) < 0) new Vectors.Nulls(fields(i).dataType, rows)
        else converters(i).of(columns(places(i)))
      vector.check(0, rows)
      if (!fields(i).nullable) Vectors.refuseNulls(vector, 0, rows, fields(i).name)
      vector
    }
    new ColumnarBatch(found, rows)
  }

  override def close(): Unit = {
    for (i <- slabs.indices) {
      if (slabs(i) != null) slabs(i).close()
      slabs(i) = null
    }
    dictionaries.values.foreach(known => release(known.memory))
    dictionaries.clear()
  }

  // -- one message ---------------------------------------------------------------------------------------------

  /** The wanted columns of a message, all their sizes and contents proven. */
  private def load(plan: Plan.Whole, roots: ju.List[Plan], header: RecordBatch, message: Message, block: Block,
      memory: Array[ArrowBuf]): Array[Column] = {
    val buffers = new ArrayBuffer[Wanted]
    val columns = walk(plan, roots, header, message, block.bodyLength, buffers)
    fetch(buffers, block, memory)
    val codec = codecOf(header, message)
    if (codec >= 0) decompress(buffers, codec, memory)
    columns.foreach { column =>
      column.checkSizes()
      attach(column)
      if (options.validate) {
        Validator.check(column)
        Expansion.check(column, message.bodyLength + dictionaryBytes)
      }
    }
    columns
  }

  private def attach(column: Column): Unit = {
    if (column.plan.dictionary != null) {
      val known = dictionaries.get(column.plan.dictionaryId())
      if (known.isEmpty && column.nulls < column.length) {
        throw column.fault(s"its dictionary ${column.plan.dictionaryId()} is not there")
      }
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
    val sorted = buffers.toArray
    ju.Arrays.sort(sorted, (one: Wanted, other: Wanted) => java.lang.Long.compare(one.offset, other.offset))
    val ranges = new ArrayBuffer[Range]
    var total = 0L
    val within = sorted.map { each =>
      if (ranges.isEmpty || each.offset > ranges.last.end + GAP) {
        total = aligned(total)
        ranges += new Range(each.offset, total)
      }
      val range = ranges.last
      val grown = Math.max(0, each.offset + each.size - range.end)
      range.end += grown
      total += grown
      range
    }
    val into = allocate(memory, 0, total)
    val body = block.offset + block.metadataLength
    ranges.foreach(range => file.source.read(body + range.start, range.end - range.start, into, range.place))
    for (i <- sorted.indices) {
      val place = within(i).place + sorted(i).offset - within(i).start
      sorted(i).put(into.memoryAddress + place, sorted(i).size)
    }
  }

  private def decompress(buffers: ArrayBuffer[Wanted], codec: Int, memory: Array[ArrowBuf]): Unit = {
    var claimed, stored, reserved = 0L
    buffers.foreach { each =>
      if (each.size < Codec.PREFIX) {
        throw each.column.fault(s"a compressed buffer of ${each.size} bytes has no room for its length")
      }
      stored += each.size
      val claim = each.claim
      if (claim == -1 || (claim == 0 && each.size == Codec.PREFIX)) {
        each.put(each.frame, each.size - Codec.PREFIX) // stored as it is
      } else {
        val why = Codec.refusal(codec, each.frame, each.size - Codec.PREFIX, claim, each.known)
        if (why != null) throw each.column.fault(why)
        claimed += claim
        reserved += aligned(claim)
        Limit.unless(claimed <= ReadOptions.DECOMPRESSED_BYTES, "a batch claims more than 2 GiB of uncompressed bytes")
      }
    }
    if (claimed > stored * ReadOptions.DECOMPRESSED_RATIO + ReadOptions.DECOMPRESSED_SLACK) {
      throw new Limit(s"a batch claims $claimed uncompressed bytes in $stored")
    }
    var place = allocate(memory, 1, reserved).memoryAddress
    buffers.foreach { each =>
      if (each.length == each.size) {
        val claim = each.claim
        Codec.decompress(codec, each.frame, each.size - Codec.PREFIX, place, claim)
        each.put(place, claim)
        place += aligned(claim)
      }
    }
  }

  // -- dictionaries --------------------------------------------------------------------------------------------

  /** Read the dictionaries that some columns need, as they are for a batch. */
  private def resolve(plans: ju.List[Plan], batch: Int): Unit = plans.forEach { plan =>
    if (plan.wanted && plan.dictionary != null) {
      resolve(plan.dictionary.columns, batch)
      resolve(plan.dictionaryId(), plan.dictionary, batch)
    } else if (plan.wanted) {
      resolve(plan.children, batch)
    }
  }

  private def resolve(id: Long, plan: Plan.Whole, batch: Int): Unit = {
    val parts = new ArrayBuffer[DictionaryBlock]
    val blocks = file.dictionaries().iterator
    var block: DictionaryBlock = null
    while (blocks.hasNext && { block = blocks.next(); block.before <= batch }) {
      if (block.id == id) {
        if (!block.delta) parts.clear()
        else if (parts.isEmpty) throw new Format(s"dictionary $id begins with a delta")
        parts += block
      }
    }
    val known = dictionaries.get(id)
    if (parts.nonEmpty && !known.exists(each => each.values != null && each.blocks == parts)) {
      val old = known.filter(each => each.values != null && parts.startsWith(each.blocks))
      val memory = old.fold(new ArrayBuffer[ArrowBuf])(_.memory)
      if (old.isEmpty) known.foreach(each => release(each.memory))
      // In the map while it grows, so that its memory is released in any case.
      dictionaries(id) = Known(parts, null, memory)
      val columns = old.fold(Array.empty[Column])(_.values.parts).padTo(parts.size, null)
      for (i <- columns.indices if columns(i) == null) columns(i) = part(plan, parts(i), memory)
      dictionaries(id) = Known(parts, new Column.Dictionary(columns), memory)
    }
  }

  private def part(plan: Plan.Whole, part: DictionaryBlock, memory: ArrayBuffer[ArrowBuf]): Column = {
    val own = new Array[ArrowBuf](2)
    val message = file.header(part.block)
    val header = IpcFile.dictionaryBatch(message).data
    if (header == null) throw new Format(s"dictionary ${part.id} has no batch")
    val length = IpcFile.length(header)
    val column =
      try load(plan, plan.columns, header, message, part.block, own)(0)
      finally own.foreach { each =>
        if (each != null) {
          memory += each
          dictionaryBytes += each.capacity
        }
      }
    if (column.length != length) {
      throw column.fault(s"a dictionary has ${column.length} values, and its batch $length rows")
    }
    if (dictionaryBytes > ReadOptions.DICTIONARY_BYTES) throw new Limit(s"dictionaries of $dictionaryBytes bytes")
    column
  }

  private def release(memory: ArrayBuffer[ArrowBuf]): Unit = {
    memory.foreach { each =>
      dictionaryBytes -= each.capacity
      each.close()
    }
    memory.clear()
  }
}

private object BatchReader {
  /** Ranges that lie closer together are read as one: seeking costs more than reading that much. */
  private final val GAP = 1L << 16
  private final val EXPERIMENTAL = "ARROW:experimental_compression"

  /** A dictionary as of some message, and the memory of its parts; no values: not all of them have been read. */
  private final case class Known(
      blocks: ArrayBuffer[DictionaryBlock], values: Column.Dictionary, memory: ArrayBuffer[ArrowBuf])

  /** Bytes of a body that are read at once, and where in memory they come to lie. */
  private final class Range(val start: Long, val place: Long) {
    var end: Long = start
  }

  /** A buffer that a column asks for: where its address goes, and where it lies in the body. */
  private final class Wanted(val column: Column, number: Int, data: Boolean, val offset: Long, val size: Long) {
    def put(address: Long, length: Long): Unit = {
      (if (data) column.dataAddress else column.address)(number) = if (length == 0) 0 else address
      (if (data) column.dataSize else column.size)(number) = length
    }

    def length: Long = (if (data) column.dataSize else column.size)(number)

    /** The bytes that a compressed buffer states at its start, and where its frame follows. */
    def claim: Long = Platform.getLong(null, frame - Codec.PREFIX)
    def frame: Long = (if (data) column.dataAddress else column.address)(number) + Codec.PREFIX

    /** Bytes that the column's length asks for; -1: values decide. */
    def known: Long = if (data) -1 else column.plan.layout match {
      case FIXED | VIEW if number > 0 => column.length * Math.max(1, column.plan.width)
      case FIXED | VIEW | BITS => column.length / 8
      case _ => -1
    }
  }

  private def aligned(size: Long): Long = size + 63 & -64L

  private def total(buffers: ArrayBuffer[Wanted]): Long = {
    var sum = 0L
    buffers.foreach(sum += _.size)
    sum
  }

  /** Where the wanted buffers of a message lie, once its vectors are as long as the schema asks for. */
  private def walk(plan: Plan.Whole, roots: ju.List[Plan], header: RecordBatch, message: Message, body: Long,
      out: ArrayBuffer[Wanted]): Array[Column] = {
    val old = message.version == 3 // V4, in which unions have bitmaps
    val views = header.variadicBufferCountsLength
    val all = plan.total
    if (views != all.views) {
      throw new Format(s"a batch has $views variadic buffer counts, expected ${all.views}")
    }
    val before = new Array[Long](views + 1)
    for (i <- 0 until views) {
      val count = header.variadicBufferCounts(i)
      if (count < 0 || count > header.buffersLength - before(i)) {
        throw new Format(s"a column of views has $count data buffers")
      }
      before(i + 1) = before(i) + count
    }
    val buffers = all.buffers + before(views) + (if (old) all.unions else 0)
    if (header.nodesLength != all.nodes || header.buffersLength != buffers) {
      throw new Format(s"a batch has ${header.nodesLength} nodes and ${header.buffersLength} buffers, " +
        s"and its schema asks for ${all.nodes} and $buffers")
    }
    val columns = new Array[Column](roots.size)
    for (i <- columns.indices) columns(i) = columnOf(roots.get(i), header, old, before, message.bodyLength, out)
    val sum = total(out)
    if (sum > body && sum - body > ReadOptions.OVERLAP_BYTES) {
      throw new Limit(s"buffers of $sum bytes share a body of $body")
    }
    columns
  }

  private def columnOf(plan: Plan, header: RecordBatch, old: Boolean, before: Array[Long], body: Long,
      out: ArrayBuffer[Wanted]): Column = {
    val first = plan.first
    val node = header.nodes(first.nodes)
    val column = new Column(plan, node.length, node.nullCount)
    if (column.length < 0 || column.nulls < -1 || column.nulls > column.length) {
      throw column.fault(s"a node of ${column.length} elements, ${column.nulls} of them null")
    }
    val union = plan.layout == SPARSE || plan.layout == DENSE
    if (old && union && column.nulls > 0) throw column.fault("a union with nulls of its own")
    val bitmaps = if (old) first.unions + (if (union) 1 else 0) else 0
    val start = first.buffers + before(first.views).toInt + bitmaps
    val own = plan.layout.buffers
    val data = if (plan.layout == VIEW) (before(first.views + 1) - before(first.views)).toInt else 0
    column.dataAddress = new Array[Long](data)
    column.dataSize = new Array[Long](data)
    var k = 0
    while (k < own + data) {
      val buffer = header.buffers(start + k)
      val offset = buffer.offset
      val size = buffer.length
      if (size != 0 && (size < 0 || offset < 0 || offset > body || size > body - offset)) {
        throw column.fault(s"buffer $k, $size bytes at $offset, is not inside the body of $body")
      }
      if (size > 0) out += new Wanted(column, if (k < own) k else k - own, k >= own, offset, size)
      k += 1
    }
    var i = 0
    while (i < column.children.length) {
      val child = plan.children.get(i)
      if (child.wanted) column.children(i) = columnOf(child, header, old, before, body, out)
      i += 1
    }
    column
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
      val pairs = Iterator.range(0, message.customMetadataLength).map(i => message.customMetadata(i))
      pairs.find(_.key == EXPERIMENTAL).fold(-1) { pair =>
        if ("zstd".equalsIgnoreCase(pair.value)) Codec.ZSTD else Codec.LZ4
      }
    }
}
