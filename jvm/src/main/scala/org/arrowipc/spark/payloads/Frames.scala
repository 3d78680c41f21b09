package org.arrowipc.spark
package payloads

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN
import com.github.luben.zstd.{Zstd, ZstdCompressCtx}
import net.jpountz.lz4.LZ4Factory
import org.apache.arrow.flatbuf.CompressionType

/** Compresses bytes into frames, and keeps the memory of its codec for the next frame. */
private[spark] abstract class Frames(val codec: Byte) extends AutoCloseable {
  /** The most bytes that a frame of `size` bytes takes. */
  def bound(size: Int): Long

  /** Compress bytes of one buffer into another, both on the heap or both not; return the size of the frame. */
  def compress(from: ByteBuffer, start: Int, size: Int, into: ByteBuffer, place: Int, room: Int): Int

  override def close(): Unit = ()
}

private[spark] object Frames {
  final class Zstds extends Frames(CompressionType.ZSTD) {
    private val context = new ZstdCompressCtx().setLevel(Zstd.defaultCompressionLevel)

    override def bound(size: Int): Long = Zstd.compressBound(size)

    override def compress(from: ByteBuffer, start: Int, size: Int, into: ByteBuffer, place: Int, room: Int): Int =
      if (from.isDirect) context.compressDirectByteBuffer(into, place, room, from, start, size)
      else context.compressByteArray(into.array, place, room, from.array, start, size)

    override def close(): Unit = context.close()
  }

  /** LZ4 frames of independent blocks, without checksums of blocks and content. */
  final class Lz4s extends Frames(CompressionType.LZ4_FRAME) {
    private val compressor = LZ4Factory.fastestInstance.fastCompressor

    override def bound(size: Int): Long = {
      val last = Math.min(size, BLOCK) // a block that would grow is stored as it is, but room for its attempt is needed
      7 + size.toLong + (size / BLOCK + 2) * 4 + compressor.maxCompressedLength(last) - last
    }

    override def compress(from: ByteBuffer, start: Int, size: Int, into: ByteBuffer, place: Int, room: Int): Int = {
      into.order(LITTLE_ENDIAN).putLong(place, HEAD)
      var at = place + 7
      for (block <- start until start + size by BLOCK) {
        val plain = Math.min(BLOCK, start + size - block)
        val length = compressor.compress(from, block, plain, into, at + 4, place + room - at - 4)
        if (length >= plain) into.put(at + 4, from, block, plain)
        into.putInt(at, if (length < plain) length else plain | Int.MinValue)
        at += 4 + Math.min(length, plain)
      }
      into.putInt(at, 0)
      at + 4 - place
    }
  }

  private final val BLOCK = 4 << 20
  /** The magic number, the descriptor of independent blocks of 4 MiB, and its checksum: 7 bytes. */
  private final val HEAD = 0x737060184D2204L
}
