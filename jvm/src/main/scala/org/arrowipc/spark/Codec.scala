package org.arrowipc.spark

import com.github.luben.zstd.{Zstd, ZstdDecompressCtx}
import net.jpountz.xxhash.XXHashFactory
import org.apache.arrow.flatbuf.CompressionType
import org.apache.arrow.memory.util.MemoryUtil.directBuffer
import org.apache.spark.unsafe.Platform.{copyMemory, getByte, getInt, getLong, getShort, putByte, putLong}
import org.arrowipc.spark.payloads.Frames
import scala.util.Try

/**
 * What readers and writers know of a codec. The size that a buffer claims is compared with its frame before memory is
 * allocated.
 *
 * @param name of the option `compression`
 * @param number in the metadata of messages
 * @param expansion a frame decompresses to at most this many times its bytes; 0: there is no such number
 * @param proveFrame refuses a frame that cannot hold as many bytes as its buffer claims
 * @param decompressor is made once for many frames: making it takes more time than to decompress a small one
 * @param frames compresses payloads, and the batches of files
 */
private[spark] final class Codec private (
    val name: String, val number: Byte, expansion: Int, proveFrame: (Column, Long, Long, Long) => Unit,
    val decompressor: () => Codec.Decompressor, val frames: () => Frames) {
  import Codec._

  /** Refuse a frame that cannot hold `claim` bytes; the column's length requires `known` bytes (-1: unknown). */
  def prove(column: Column, frame: Long, size: Long, claim: Long, known: Long): Unit = {
    def much = expansion > 0 && claim / expansion > size
    def more = known >= 0 && claim > known + Spare && (claim - known - Spare) / Lz4Expansion > size
    column.prove(claim >= 0, s"a buffer claims $claim uncompressed bytes")
    column.prove(!much && !more, s"a buffer claims $claim bytes in $size, for values that need $known")
    proveFrame(column, frame, size, claim)
  }
}

/**
 * The codecs, each a row of one table, and how their frames are decompressed from memory to memory.
 *
 * LZ4 blocks are decoded here, because Arrow's writers link the blocks of a frame, and the decoders in Spark read such
 * blocks only through streams of bytes.
 */
private[spark] object Codec {
  final val PREFIX = 8
  /** An LZ4 block decompresses to at most this many times its bytes. */
  private final val Lz4Expansion = 255
  private final val Lz4Magic = 0x184D2204
  private final val ZstdMagic = 0xFD2FB528
  private final val Skippable = 0x184D2A5
  private final val ZstdWindow = 1L << 27
  private final val ZstdBlock = 1 << 17
  private final val CutShort = "the ZSTD frame is cut short"
  private final val WrongSum = "the LZ4 frame has a wrong checksum of its "
  /** Bytes that a writer may leave after the values of a slice. */
  private final val Spare = 1L << 16

  private val table = Seq(
    new Codec("lz4", CompressionType.LZ4_FRAME, Lz4Expansion, proveLz4, () => Lz4, () => new Frames.Lz4s),
    new Codec("zstd", CompressionType.ZSTD, 0, proveZstd, () => new Zstds, () => new Frames.Zstds))

  def of(number: Byte): Option[Codec] = table.find(_.number == number)

  def named(name: String): Option[Codec] = table.find(_.name.equalsIgnoreCase(name))

  abstract class Decompressor extends AutoCloseable {
    /** Decompress a checked frame. */
    final def decompress(column: Column, frame: Long, size: Long, into: Long, claim: Long): Unit =
      column.prove(fills(column, frame, size, into, claim),
        s"a compressed buffer of $size bytes does not hold its $claim")

    /** Decompress a checked frame, and return whether it fills `claim` bytes. */
    protected def fills(column: Column, frame: Long, size: Long, into: Long, claim: Long): Boolean

    override def close(): Unit = ()
  }

  private def byte(at: Long): Int = getByte(null, at) & 255

  // -- ZSTD ----------------------------------------------------------------------------------------------------

  private final class Zstds extends Decompressor {
    private val context = new ZstdDecompressCtx

    override protected def fills(column: Column, frame: Long, size: Long, into: Long, claim: Long): Boolean =
      if (claim <= Int.MaxValue && size <= Int.MaxValue) {
        val (target, source) = (directBuffer(into, claim.toInt), directBuffer(frame, size.toInt))
        Try(context.decompressDirectByteBuffer(target, 0, claim.toInt, source, 0, size.toInt)).toOption
          .exists(_ == claim)
      } else Zstd.decompressUnsafe(into, claim, frame, size) == claim // an error is a negative number

    override def close(): Unit = context.close()
  }

  private def proveZstd(column: Column, start: Long, size: Long, claim: Long): Unit = {
    var data = start
    var left = size
    var least, most = 0L
    while (left > 0) {
      val magic = if (left < 8) 0 else getInt(null, data)
      column.prove(magic == ZstdMagic || magic >>> 4 == Skippable, "not a ZSTD frame")
      val frame = if (magic == ZstdMagic) measure(column, data, left)
        else Frame(8 + (getInt(null, data + 4) & 0xffffffffL), 0, 0)
      column.prove(frame.stated <= claim - least, "the ZSTD frame states a larger size")
      least += math.max(frame.stated, 0)
      most += (if (frame.stated < 0) frame.most else frame.stated)
      data += frame.size
      left -= frame.size
    }
    column.prove(left == 0, CutShort)
    column.prove(most >= claim, "the ZSTD frame holds less")
  }

  /** The bytes of a frame, the content size that it states (-1: none), and the most that its blocks can hold. */
  private final case class Frame(size: Long, stated: Long, most: Long)

  /** Measure a ZSTD frame by its header and block headers (RFC 8878, 3.1.1). */
  private def measure(column: Column, data: Long, size: Long): Frame = {
    val flags = byte(data + 4)
    val id = 1 << (flags & 3) >> 1
    val content = if (flags >> 6 > 0) 1 << (flags >> 6) else flags >> 5 & 1
    var at = 5L
    if ((flags & 0x20) == 0) {
      val window = byte(data + at)
      at += 1
      column.prove(8L + (window & 7) << 7 + (window >> 3) <= ZstdWindow,
        "the ZSTD frame asks for a window of more than 128 MiB")
    }
    column.prove(size - at >= id + content, CutShort)
    column.prove((0 until id).forall(i => byte(data + at + i) == 0), "the ZSTD frame needs a dictionary")
    at += id
    val number = (0 until content).foldRight(0L)((i, above) => above << 8 | byte(data + at + i))
    val stated = if (content == 2) number + 256 else if (content == 0) -1 else number & Long.MaxValue
    at += content
    var most = 0L
    var block = 0
    while ((block & 1) == 0) {
      column.prove(size - at >= 3, CutShort)
      block = getShort(null, data + at) & 0xffff | byte(data + at + 2) << 16
      val kind = block >> 1 & 3
      at += 3 + (if (kind == 1) 1 else block >> 3)
      most += (if (kind == 2) ZstdBlock else block >> 3)
    }
    column.prove(at + (flags & 4) <= size, CutShort)
    Frame(at + (flags & 4), stated, most)
  }

  // -- LZ4 -----------------------------------------------------------------------------------------------------

  private def proveLz4(column: Column, frame: Long, size: Long, claim: Long): Unit = {
    column.prove(size >= 7 && getInt(null, frame) == Lz4Magic,
      "not an LZ4 frame (legacy and skippable frames are not allowed)")
    column.prove((byte(frame + 4) & 0xC3) == 0x40 && (byte(frame + 5) & 0xCF) == 0x40,
      "the LZ4 frame has an unknown header, or needs a dictionary")
    column.prove((byte(frame + 4) & 8) == 0 || size >= 15 && getLong(null, frame + 6) == claim,
      "the LZ4 frame states another size")
    val header = 2 + (byte(frame + 4) & 8)
    column.prove(byte(frame + 4 + header) == (xxh32(frame + 4, header) >> 8 & 255), WrongSum + "header")
  }

  private def xxh32(start: Long, size: Long): Int =
    XXHashFactory.fastestInstance.hash32.hash(directBuffer(start, Math.toIntExact(size)), 0)

  private object Lz4 extends Decompressor {
    /** Decode all blocks of a frame, where matches may refer to earlier blocks, and verify its checksums, if any. */
    override protected def fills(column: Column, frame: Long, size: Long, into: Long, claim: Long): Boolean = {
      val flags = byte(frame + 4)
      val end = frame + size
      val limit = into + claim
      var at = frame + 7 + (flags & 8)
      var out = into
      while (end - at >= 4) {
        val head = getInt(null, at)
        val length = head & Int.MaxValue
        at += 4
        if (head == 0) {
          if (out != limit || end - at != (flags & 4)) return false
          column.prove((flags & 4) == 0 || xxh32(into, claim) == getInt(null, at), WrongSum + "content")
          return true
        }
        val sum = (flags & 16) / 4
        if (length > end - at - sum) return false
        column.prove(sum == 0 || xxh32(at, length) == getInt(null, at + length), WrongSum + "block")
        if (head < 0) {
          if (length > limit - out) return false
          copyMemory(null, at, null, out, length)
          out += length
        } else {
          out = block(at, at + length, into, out, limit)
          if (out < 0) return false
        }
        at += length + sum
      }
      false
    }
  }

  /** Decode a block; return the end of its output, or -1. Read only in [from, end), write only in [start, limit). */
  private def block(from: Long, end: Long, start: Long, into: Long, limit: Long): Long = {
    var at = from
    var out = into
    while (at < end) {
      val token = byte(at)
      at += 1
      var literals = (token >> 4).toLong
      if (literals == 15) {
        var more = 255
        while (more == 255) {
          if (at >= end) return -1
          more = byte(at)
          at += 1
          literals += more
        }
      }
      if (literals > end - at || literals > limit - out) return -1
      if (literals <= 16 && end - at >= 16 && limit - out >= 16) {
        putLong(null, out, getLong(null, at))
        putLong(null, out + 8, getLong(null, at + 8))
      } else copyMemory(null, at, null, out, literals)
      at += literals
      out += literals
      if (at == end) return out
      if (end - at < 2) return -1
      val distance = getShort(null, at) & 0xffff
      at += 2
      var length = (token & 15) + 4L
      if (length == 19) {
        var more = 255
        while (more == 255) {
          if (at >= end) return -1
          more = byte(at)
          at += 1
          length += more
        }
      }
      if (distance == 0 || distance > out - start || length > limit - out) return -1
      repeat(out, distance, length, limit)
      out += length
    }
    -1
  }

  /** Copy a match, which may overlap its own output; eight bytes at a time if distance and room allow it. */
  private def repeat(into: Long, distance: Int, length: Long, limit: Long): Unit = {
    val end = into + length
    var out = into
    if (distance >= 8 && limit - end >= 8) {
      while (out < end) {
        putLong(null, out, getLong(null, out - distance))
        out += 8
      }
    } else {
      while (out < end) {
        putByte(null, out, getByte(null, out - distance))
        out += 1
      }
    }
  }
}
