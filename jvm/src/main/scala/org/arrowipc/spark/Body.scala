package org.arrowipc.spark

import scala.collection.mutable.ArrayBuffer
import org.apache.arrow.flatbuf.{Buffer, Message, RecordBatch}
import org.apache.spark.unsafe.Platform
import org.arrowipc.spark.ArrowIpcException.{Format, Limit, Unsupported}
import org.arrowipc.spark.Plan.Layout._

/** The wanted columns and buffers of a message, whose nodes and buffers must be as many as the schema requires. */
private[spark] final class Body(plan: Plan.Whole, message: Message, header: RecordBatch) {
  import Body._

  val buffers = new ArrayBuffer[Wanted]
  private val old = message.version == 3 // V4, in which unions have bitmaps
  /** For each column of views, how many data buffers the columns of views before it have; at the end, their sum. */
  private val before = new Array[Long](header.variadicBufferCountsLength + 1)
  private var sum = 0L
  checkCounts()
  /** The columns without the addresses of their buffers; null for those that are not wanted. */
  val columns: Array[Column] = columnsOf(plan.columns)
  if (sum > message.bodyLength && sum - message.bodyLength > ReadOptions.OVERLAP_BYTES) throw new Limit(
    s"buffers of $sum bytes share a body of ${message.bodyLength}")

  /** The codec of the buffers, if they are compressed. */
  def codec: Option[Codec] = {
    def unknown(codec: Any) = throw new Unsupported(s"a batch is compressed by the unknown codec $codec")
    val stated = header.compression
    if (stated != null) Codec.of(stated.codec).filter(_ => stated.method == 0).orElse(unknown(stated.codec))
    else Metadata.pairs(message).find(_.key == EXPERIMENTAL)
      .map(pair => Codec.named(pair.value).getOrElse(unknown(pair.value)))
  }

  private def checkCounts(): Unit = {
    val views = before.length - 1
    val all = plan.total
    if (views != all.views) throw new Format(s"a batch has $views variadic buffer counts, expected ${all.views}")
    for (i <- 0 until views) {
      val count = header.variadicBufferCounts(i)
      Format.unless(0 <= count && count <= header.buffersLength - before(i),
        "a column of views has %d data buffers", count)
      before(i + 1) = before(i) + count
    }
    val buffers = all.buffers + before(views) + (if (old) all.unions else 0)
    if (header.nodesLength != all.nodes || header.buffersLength != buffers) throw new Format(
      s"a batch has ${header.nodesLength} nodes and ${header.buffersLength} buffers, and its schema asks for " +
        s"${all.nodes} and $buffers")
  }

  private def columnsOf(plans: collection.Seq[Plan]): Array[Column] =
    Array.tabulate(plans.length)(i => if (plans(i).wanted) columnOf(plans(i)) else null)

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

private[spark] object Body {
  private final val EXPERIMENTAL = "ARROW:experimental_compression"

  /** A buffer that a column asks for, and where it lies in the body. */
  final class Wanted(val column: Column, number: Int, val offset: Long, val size: Long) {
    /** Set the buffer's address and length in its column. */
    def put(address: Long, length: Long): Unit = {
      column.address(number) = if (length == 0) 0 else address
      column.size(number) = length
    }

    def length: Long = column.size(number)

    /** The uncompressed length that a compressed buffer states in its first 8 bytes; its `frame` follows them. */
    def claim: Long = Platform.getLong(null, frame - Codec.PREFIX)
    def frame: Long = column.address(number) + Codec.PREFIX

    /** The bytes that the column's length requires; -1 if they depend on the values. */
    def known: Long = column.plan.layout match {
      case FIXED | VIEW if number == 1 => column.length * Math.max(1, column.plan.width)
      case FIXED | VIEW | BITS if number < 2 => column.length / 8
      case _ => -1
    }
  }
}
