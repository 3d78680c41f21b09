package org.arrowipc.spark

import scala.collection.mutable.{ArrayBuffer, HashMap}
import org.apache.arrow.flatbuf.{Message, RecordBatch}
import org.arrowipc.spark.ArrowIpcException.Limit

/** Makes checked columns of messages; the caller provides their bytes, from a file or from memory. */
private[spark] final class MessageDecoder(options: ReadOptions) extends AutoCloseable {
  private val decompressors = new HashMap[Codec, Codec.Decompressor]

  /**
   * The wanted columns of a message, null for the others. Sizes are checked; contents, if `validate` is full.
   *
   * @param place sets the addresses of the buffers that it is given
   * @param memory holds the decompressed buffers
   */
  def columns(
      plan: Plan.Whole, message: Message, header: RecordBatch, dictionaries: Dictionaries, memory: Slabs)(
      place: ArrayBuffer[Body.Wanted] => Unit): Array[Column] = {
    val body = new Body(plan, message, header)
    place(body.buffers)
    body.codec.foreach(decompress(body.buffers, _, memory))
    for (column <- body.columns if column != null) {
      column.checkSizes()
      attach(column, dictionaries)
      if (options.validate) {
        Validator.check(column)
        Expansion.check(column, message.bodyLength + dictionaries.bytes)
      }
    }
    body.columns
  }

  private def attach(column: Column, dictionaries: Dictionaries): Unit = {
    if (column.plan.dictionary != null) {
      val known = dictionaries.of(column.plan.dictionaryId)
      column.prove(known.nonEmpty || column.nulls == column.length,
        s"its dictionary ${column.plan.dictionaryId} is not there")
      column.dictionary = known.getOrElse(new Column.Dictionary(Array.empty))
    }
    column.children.foreach(child => if (child != null) attach(child, dictionaries))
  }

  private def decompress(buffers: ArrayBuffer[Body.Wanted], codec: Codec, memory: Slabs): Unit = {
    var claimed, stored, reserved = 0L
    buffers.foreach { each =>
      each.column.prove(each.size >= Codec.PREFIX,
        s"a compressed buffer of ${each.size} bytes has no room for its length")
      stored += each.size
      val claim = each.claim
      if (claim == -1 || (claim == 0 && each.size == Codec.PREFIX)) {
        each.put(each.frame, each.size - Codec.PREFIX) // stored uncompressed
      } else {
        codec.prove(each.column, each.frame, each.size - Codec.PREFIX, claim, each.known)
        claimed += claim
        reserved += aligned(claim)
        Limit.unless(claimed <= ReadOptions.DECOMPRESSED_BYTES, "a batch claims more than 2 GiB of uncompressed bytes")
      }
    }
    Limit.unless(claimed <= stored * ReadOptions.DECOMPRESSED_RATIO + ReadOptions.DECOMPRESSED_SLACK,
      "a batch claims %d uncompressed bytes in %d", claimed, stored)
    val decompressor = decompressors.getOrElseUpdate(codec, codec.decompressor())
    var place = memory.take(reserved)
    buffers.foreach { each =>
      if (each.length == each.size) {
        val claim = each.claim
        decompressor.decompress(each.column, each.frame, each.size - Codec.PREFIX, place, claim)
        each.put(place, claim)
        place += aligned(claim)
      }
    }
  }

  private def aligned(size: Long): Long = size + 63 & -64L

  override def close(): Unit = decompressors.values.foreach(_.close())
}
