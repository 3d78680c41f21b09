package org.arrowipc.spark
package payloads

import com.github.luben.zstd.{Zstd, ZstdCompressCtx}
import net.jpountz.lz4.LZ4Factory
import net.jpountz.xxhash.XXHashFactory
import org.apache.arrow.flatbuf.CompressionType
import org.apache.spark.unsafe.Platform.{BYTE_ARRAY_OFFSET => BASE, putInt}

/** Compresses bytes into frames, and keeps the memory of its codec for the next frame. */
private[spark] abstract class Frames(val codec: Byte) extends AutoCloseable {
  /** The most bytes that a frame of `size` bytes takes. */
  def bound(size: Int): Long

  /** Compress bytes of one array into another; return the size of the frame. */
  def compress(from: Array[Byte], start: Int, size: Int, into: Array[Byte], place: Int, room: Int): Int

  override def close(): Unit = ()
}

private[spark] object Frames {
  final class Zstds extends Frames(CompressionType.ZSTD) {
    private val context = new ZstdCompressCtx().setLevel(Zstd.defaultCompressionLevel)

    override def bound(size: Int): Long = Zstd.compressBound(size)

    override def compress(from: Array[Byte], start: Int, size: Int, into: Array[Byte], place: Int, room: Int): Int =
      context.compressByteArray(into, place, room, from, start, size)

    override def close(): Unit = context.close()
  }

  /** LZ4 frames of independent blocks, without checksums of blocks and content. */
  final class Lz4s extends Frames(CompressionType.LZ4_FRAME) {
    private val compressor = LZ4Factory.fastestInstance.fastCompressor

    override def bound(size: Int): Long =
      Lz4.HEAD.length + 4L + (size - 1) / Lz4.BLOCK * 4L + 4 + compressor.maxCompressedLength(size)

    override def compress(from: Array[Byte], start: Int, size: Int, into: Array[Byte], place: Int, room: Int): Int = {
      System.arraycopy(Lz4.HEAD, 0, into, place, Lz4.HEAD.length)
      var at = place + Lz4.HEAD.length
      for (block <- start until start + size by Lz4.BLOCK) {
        val plain = Math.min(Lz4.BLOCK, start + size - block)
        val length = compressor.compress(from, block, plain, into, at + 4, place + room - at - 4)
        if (length < plain) putInt(into, BASE + at, length)
        else {
          System.arraycopy(from, block, into, at + 4, plain)
          putInt(into, BASE + at, plain | Int.MinValue)
        }
        at += 4 + Math.min(length, plain)
      }
      putInt(into, BASE + at, 0)
      at + 4 - place
    }
  }

  private object Lz4 {
    final val BLOCK = 4 << 20
    /** The magic number, the descriptor of independent blocks of 4 MiB, and its checksum. */
    val HEAD: Array[Byte] = {
      val head = Array[Byte](0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0)
      head(6) = (XXHashFactory.fastestInstance.hash32.hash(head, 4, 2, 0) >> 8).toByte
      head
    }
  }
}
