package org.arrowipc.spark

import java.io.{Closeable, EOFException}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Paths, StandardOpenOption}
import org.apache.arrow.memory.util.MemoryUtil.directBuffer
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.unsafe.Platform

/**
 * The bytes of one file, read by position; `size` is how many there were when it was opened.
 *
 * Never mapped: offsets are proven once and followed later, so they must not change in between; and a mapped file
 * that shrinks is an error of the whole VM, where a read that comes short is an exception of one task.
 */
abstract class Source private[spark] (val size: Long) extends Closeable {
  private[this] var small: Array[Byte] = _
  /** Where all the bytes lie in memory; 0: they have to be read. */
  private[spark] def address: Long = 0

  /** Fill what remains of `into` from a position on. */
  private[spark] def fill(position: Long, into: ByteBuffer): Unit

  /** Some bytes on the heap, as metadata is read. */
  private[spark] def read(position: Long, length: Int): ByteBuffer = {
    if (size <= Source.Small && small == null) {
      val whole = ByteBuffer.allocate(size.toInt)
      fill(0, whole)
      small = whole.array
    }
    val found = ByteBuffer.allocate(length)
    if (small != null) found.put(small, position.toInt, length) else fill(position, found)
    found.flip()
  }

  /** Some bytes, of which there may be more than 2 GiB, to an address. */
  private[spark] def read(position: Long, length: Long, into: Long): Unit =
    if (small != null) Platform.copyMemory(small, Platform.BYTE_ARRAY_OFFSET + position, null, into, length)
    else {
      var done = 0L
      while (done < length) {
        val piece = math.min(Source.Piece, length - done).toInt
        fill(position + done, directBuffer(into + done, piece))
        done += piece
      }
    }
}

object Source {
  private val Piece = 1L << 30
  /** Files of up to so many bytes are read at once: a small file costs what its requests cost. */
  private val Small = 1 << 16

  /** A file of this machine. */
  def local(path: String): Source = {
    val channel = FileChannel.open(Paths.get(path), StandardOpenOption.READ)
    new Source(channel.size) {
      override def fill(position: Long, into: ByteBuffer): Unit = {
        var at = position
        while (into.hasRemaining) {
          val count = channel.read(into, at)
          if (count < 0) throw new EOFException(s"$path ends at byte $at: it was longer when it was opened")
          at += count
        }
      }

      override def close(): Unit = channel.close()
    }
  }

  /** A file of any file system that Hadoop knows, of a size that its listing gave. */
  private[spark] def far(path: Path, size: Long, configuration: Configuration): Source = {
    val stream = path.getFileSystem(configuration).open(path)
    new Source(size) {
      override def fill(position: Long, into: ByteBuffer): Unit = {
        val piece = new Array[Byte](math.min(into.remaining, 1 << 20))
        var at = position
        while (into.hasRemaining) {
          val count = math.min(piece.length, into.remaining)
          stream.readFully(at, piece, 0, count)
          into.put(piece, 0, count)
          at += count
        }
      }

      override def close(): Unit = stream.close()
    }
  }

  /** A cell of a column, from a byte on. */
  private[spark] class Cell(bytes: Array[Byte], from: Int) extends Source(bytes.length - from) {
    override def read(position: Long, length: Int): ByteBuffer =
      ByteBuffer.wrap(bytes, from + position.toInt, length).slice()

    override def fill(position: Long, into: ByteBuffer): Unit = into.put(read(position, into.remaining))
    override def close(): Unit = ()
  }

  /** The same, copied to an address where there is room for it. */
  private[spark] final class Copied(bytes: Array[Byte], from: Int, override val address: Long)
      extends Cell(bytes, from) {
    Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET + from, null, address, size)
  }
}
