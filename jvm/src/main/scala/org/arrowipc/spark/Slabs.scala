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
    if (used < slabs.length) {
      val found = slabs(used).capacity
      if (found < size || found / 4 > size + Slabs.SPARE) slabs.remove(used).close()
      else {
        used += 1
        return slabs(used - 1).memoryAddress
      }
    }
    val slab = try allocator.buffer(Math.max(size, 64)) catch {
      case error @ (_: OutOfMemoryException | _: OutOfMemoryError) =>
        throw new Limit(s"a batch needs $size bytes, more than this task has left: ${error.getMessage}; " +
          "give the executor more memory, or write shorter batches", error)
    }
    slabs.insert(used, slab)
    used += 1
    slab.memoryAddress
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
