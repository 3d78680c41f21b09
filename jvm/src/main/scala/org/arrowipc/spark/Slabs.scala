package org.arrowipc.spark

import scala.collection.mutable.ArrayBuffer
import org.apache.arrow.memory.{ArrowBuf, BufferAllocator, OutOfMemoryException}
import org.arrowipc.spark.ArrowIpcException.Limit

/** Pieces of memory that are reused: after `reset`, `take` returns them in the same order, if their sizes fit. */
private[spark] final class Slabs(allocator: BufferAllocator) extends AutoCloseable {
  private val slabs = new ArrayBuffer[ArrowBuf]
  private var used = 0

  /** The bytes of all calls of `take`, also of those before a `reset`. */
  var taken = 0L

  /** Let all pieces be taken again; free those that were not taken since the last call. */
  def reset(): Unit = {
    while (slabs.length > used) slabs.remove(slabs.length - 1).close()
    used = 0
  }

  /** Return the address of `size` bytes, which are valid until the next `reset`. */
  def take(size: Long): Long = {
    taken += size
    val found = if (used < slabs.length) slabs(used).capacity else 0
    if (found < size || found == 0 || found / 4 > size + Slabs.SPARE) {
      if (used < slabs.length) slabs.remove(used).close()
      slabs.insert(used, try allocator.buffer(Math.max(size, 64)) catch {
        case error @ (_: OutOfMemoryException | _: OutOfMemoryError) =>
          throw new Limit(s"a batch needs $size bytes, more than this task has left: ${error.getMessage}; " +
            "give the executor more memory, or write shorter batches", error)
      })
    }
    used += 1
    slabs(used - 1).memoryAddress
  }

  override def close(): Unit = {
    used = 0
    reset()
  }
}

private object Slabs {
  /** A piece is reused only if it has at most 4 * (wanted bytes + SPARE) bytes. */
  private final val SPARE = 1L << 16
}
