package org.arrowipc.spark
package payloads

import java.io.ByteArrayOutputStream
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.channels.Channels
import java.util
import java.util.Collections.nCopies
import org.apache.arrow.memory.{ArrowBuf, ReferenceManager}
import org.apache.arrow.vector.compression.NoCompressionCodec
import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.{ArrowBodyCompression, ArrowFieldNode, ArrowRecordBatch, MessageSerializer}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.Platform.{BYTE_ARRAY_OFFSET => BASE}
import org.arrowipc.spark.ArrowIpcException.Limit

/**
 * Encodes rows as streams of one batch, one after the other, in memory that is reused.
 *
 * All bytes before the values are made once. They have the same length in every payload, so a field's values are
 * written to their final place, and then its length, null count and buffers into the header before them.
 */
private[payloads] final class PayloadEncoder(schema: StructType, options: EncodeOptions) extends AutoCloseable {
  private val frames = Codec.named(options.compression).map(_.frames()).orNull
  private var nodes, buffers = 0
  private val columns = schema.fields.map(field => Layout.of(field.dataType, field.name, options.invalidText, number))
  /** The first bytes of each payload: the Schema message, if it has one, and the batch's metadata; their beginning. */
  private val (head, batchAt) = {
    val bytes = new ByteArrayOutputStream
    val out = new WriteChannel(Channels.newChannel(bytes))
    val fields = SparkSchema.arrow(schema, options.invalidText).getFields
    if (options.withSchema) MessageSerializer.serialize(out, new Schema(fields))
    val start = bytes.size + 8
    val compression =
      if (frames == null) NoCompressionCodec.DEFAULT_BODY_COMPRESSION else new ArrowBodyCompression(frames.codec, 0)
    // Everything that differs between payloads has a placeholder; the builder would leave out lengths of 0.
    val buffer = new ArrowBuf(ReferenceManager.NO_OP, null, 0, 0)
    val batch = new ArrowRecordBatch(1, nCopies(nodes, new ArrowFieldNode(0, 0)), nCopies(buffers, buffer), compression)
    val metadata = IpcOutput.message(batch, 1, Nil)
    MessageSerializer.writeMessageBuffer(out, metadata.remaining, metadata)
    (bytes.toByteArray, start)
  }
  /** Places in `head`: of the number of rows, the length of the body, the first node and the first buffer. */
  private val (rowsAt, bodyAt, nodesAt, buffersAt) = {
    val bytes = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN)
    def follow(place: Int) = place + bytes.getInt(place)
    def slot(table: Int, number: Int) = table + bytes.getShort(table - bytes.getInt(table) + 4 + 2 * number)
    val message = follow(batchAt)
    val batch = follow(slot(message, 2))
    (slot(batch, 0), slot(message, 3), follow(slot(batch, 1)) + 4, follow(slot(batch, 2)) + 4)
  }
  private val draft, packed = new Draft(head, nodesAt, buffersAt)

  /** Take the next number of a node and of a first buffer, for a field with `count` buffers. */
  private def number(count: Int): (Int, Int) = {
    val own = (nodes, buffers)
    nodes += 1
    buffers += count
    own
  }

  /** Encode rows as one payload; a null row has only nulls. */
  def encode(rows: Array[SpecializedGetters]): Array[Byte] = {
    draft.reset()
    for (i <- columns.indices) columns(i).write(draft, new Cells(rows, null, i, rows.length))
    draft.putLong(rowsAt, rows.length)
    val whole = if (frames == null) draft else compressed()
    whole.putLong(bodyAt, whole.end - head.length)
    if (options.withSchema) whole.putLong(whole.take(8), 0xffffffffL) // the end marker of a stream
    val payload = util.Arrays.copyOf(whole.bytes, whole.end)
    draft.shrink()
    packed.shrink()
    payload
  }

  /** Copy `draft` with compressed buffers; those that would not be smaller are stored as they are. */
  private def compressed(): Draft = {
    packed.reset()
    System.arraycopy(draft.bytes, 0, packed.bytes, 0, head.length)
    for (i <- 0 until buffers) {
      val place = buffersAt + 16 * i
      val (from, size) = (head.length + draft.getLong(place).toInt, draft.getLong(place + 8).toInt)
      val start = packed.end
      if (size > 0) {
        val room = Math.max(frames.bound(size), size)
        val at = packed.take(8 + room)
        val (plain, into) = (ByteBuffer.wrap(draft.bytes), ByteBuffer.wrap(packed.bytes))
        val length = frames.compress(plain, from, size, into, at + 8, room.toInt)
        packed.putLong(at, if (length < size) size else -1)
        if (length >= size) System.arraycopy(draft.bytes, from, packed.bytes, at + 8, size)
        packed.end = at + 8 + Math.min(length, size)
      }
      packed.putLong(place, start - head.length)
      packed.putLong(place + 8, packed.end - start)
      packed.pad()
    }
    packed
  }

  override def close(): Unit = if (frames != null) frames.close()
}

/** The bytes of a payload that are written so far, in an array that grows; nodes and buffers are listed in `head`. */
private[payloads] final class Draft(head: Array[Byte], nodesAt: Int, buffersAt: Int) {
  var bytes: Array[Byte] = util.Arrays.copyOf(head, head.length + Draft.LEAST)
  var end: Int = head.length

  def reset(): Unit = end = head.length

  /** Replace an array that is larger than most payloads need. */
  def shrink(): Unit = if (bytes.length > head.length + Draft.KEPT) {
    bytes = util.Arrays.copyOf(bytes, head.length + Draft.LEAST)
  }

  /** Append `size` bytes of any content; return where they begin. */
  def take(size: Long): Int = {
    val place = end
    if (size > bytes.length - place) grow(place + size)
    end = place + size.toInt
    place
  }

  private def grow(size: Long): Unit = {
    Limit.unless(size <= Draft.MOST,
      "a payload of more than 2 GiB, which no cell of Spark holds; give fewer rows at once")
    bytes = try util.Arrays.copyOf(bytes, Math.min(Math.max(2L * bytes.length, size), Draft.MOST).toInt) catch {
      case error: OutOfMemoryError => throw new Limit(s"a payload needs $size bytes, more than this JVM has left: " +
        s"${error.getMessage}; give the executor more memory, or fewer rows at once", error)
    }
  }

  /** Append zeros up to the next multiple of 8. */
  def pad(): Unit = {
    val from = end
    take(-from & 7)
    util.Arrays.fill(bytes, from, end, 0.toByte)
  }

  /** Append `size` zeros; return where they begin. */
  def zeros(size: Long): Int = {
    val place = take(size)
    util.Arrays.fill(bytes, place, end, 0.toByte)
    place
  }

  def node(number: Int, length: Int, nulls: Int): Unit = {
    putLong(nodesAt + 16 * number, length)
    putLong(nodesAt + 16 * number + 8, nulls)
  }

  /** Write into the header that the bytes from a place on are a buffer, and pad it. */
  def buffer(number: Int, from: Int): Unit = {
    putLong(buffersAt + 16 * number, from - head.length)
    putLong(buffersAt + 16 * number + 8, end - from)
    pad()
  }

  def getLong(place: Int): Long = Platform.getLong(bytes, BASE + place)
  def putShort(place: Int, value: Short): Unit = Platform.putShort(bytes, BASE + place, value)
  def putInt(place: Int, value: Int): Unit = Platform.putInt(bytes, BASE + place, value)
  def putLong(place: Int, value: Long): Unit = Platform.putLong(bytes, BASE + place, value)
  def putFloat(place: Int, value: Float): Unit = Platform.putFloat(bytes, BASE + place, value)
  def putDouble(place: Int, value: Double): Unit = Platform.putDouble(bytes, BASE + place, value)
}

private object Draft {
  private final val LEAST = 4096
  private final val KEPT = 4 << 20
  /** The most bytes of an array in the JVM. */
  private final val MOST = Int.MaxValue - 15L
}
