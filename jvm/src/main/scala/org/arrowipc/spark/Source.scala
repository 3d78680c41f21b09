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
 * The bytes of one file, read by position; `size` is the file's length when it was listed or opened.
 *
 * Files are never mapped: offsets are checked once and used later, so they must not change in between. And a mapped
 * file that shrinks is an error of the whole JVM, while a short read is an exception of one task.
 */
abstract class Source private[spark] (val size: Long) extends Closeable {
  private[this] var small: Array[Byte] = _
  /** The address of the bytes if all of them are in memory; 0 if they have to be read. */
  private[spark] def address: Long = 0

  /** Fill the rest of `into` with the bytes from `position` on. */
  private[spark] def fill(position: Long, into: ByteBuffer): Unit

  /** Read bytes, such as metadata, into a buffer on the heap. */
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

  /** Read bytes, possibly more than 2 GiB, to an address. */
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
  /** Files of at most this many bytes are read by one request: for small files, only the requests take time. */
  private val Small = 1 << 16

  /** Open a local file. */
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

  /** Open a file of any file system that Hadoop knows; its size is known from a listing. */
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

  /** The bytes of one payload column's cell, from byte `from` on. */
  private[spark] class Cell(bytes: Array[Byte], from: Int) extends Source(bytes.length - from) {
    override def read(position: Long, length: Int): ByteBuffer =
      ByteBuffer.wrap(bytes, from + position.toInt, length).slice()

    override def fill(position: Long, into: ByteBuffer): Unit = into.put(read(position, into.remaining))
    override def close(): Unit = ()
  }

  /** The bytes of a cell, copied to `address`, where the caller has reserved `size` bytes. */
  private[spark] final class Copied(bytes: Array[Byte], from: Int, override val address: Long)
      extends Cell(bytes, from) {
    Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET + from, null, address, size)
  }
}
