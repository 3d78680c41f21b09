package org.arrowipc.spark

import scala.collection.mutable.{ArrayBuffer, HashMap}
import org.apache.arrow.flatbuf.RecordBatch
import org.apache.arrow.memory.BufferAllocator
import org.arrowipc.spark.ArrowIpcException.{Format, Limit}
import org.arrowipc.spark.IpcFile.DictionaryBlock

/**
 * The dictionaries of a file or stream, as they are for one batch. They are read when a batch needs them, and kept.
 *
 * @param load reads the columns of a dictionary's message into memory
 */
private[spark] final class Dictionaries(file: IpcFile, allocator: BufferAllocator)(
    load: (Plan.Whole, DictionaryBlock, Slabs) => (RecordBatch, Array[Column])) extends AutoCloseable {
  import Dictionaries._

  private val dictionaries = HashMap.empty[Long, Known]
  private val replaced = new ArrayBuffer[Known]

  /** The values of a dictionary; None if it was not read. */
  def of(id: Long): Option[Column.Dictionary] = dictionaries.get(id).map(_.values)

  /** The bytes of all dictionaries: of each message's body, or of its memory if that is more. */
  def bytes: Long = dictionaries.valuesIterator.map(_.bytes).sum

  /** Read the dictionaries that columns need in a batch; the vectors of other dictionaries stay valid. */
  def resolve(plans: collection.Seq[Plan], batch: Int): Unit = for (plan <- plans if plan.wanted) {
    if (plan.dictionary != null) {
      resolve(plan.dictionary.columns, batch)
      resolve(plan.dictionaryId, plan.dictionary, batch)
    } else resolve(plan.children, batch)
  }

  private def resolve(id: Long, plan: Plan.Whole, batch: Int): Unit = {
    val parts = new ArrayBuffer[DictionaryBlock]
    for (block <- file.dictionaries.iterator.takeWhile(_.before <= batch) if block.id == id) {
      if (!block.delta) parts.clear()
      else if (parts.isEmpty) throw new Format(s"dictionary $id begins with a delta")
      parts += block
    }
    if (parts.nonEmpty) {
      dictionaries.get(id).filterNot(known => parts.startsWith(known.parts)).foreach { known =>
        replaced += known
        dictionaries -= id
      }
      // Keep it in the map while it grows, so that `close` frees its memory in any case.
      val known = dictionaries.getOrElseUpdate(id, new Known(new Slabs(allocator)))
      if (known.values == null || known.parts != parts) {
        known.values = null
        for (each <- parts.drop(known.parts.size)) {
          known.columns += part(plan, each, known)
          known.parts += each
        }
        known.values = new Column.Dictionary(known.columns.toArray)
        Limit.unless(known.values.length <= Int.MaxValue, "dictionary %d has %d values", id, known.values.length)
      }
    }
  }

  private def part(plan: Plan.Whole, part: DictionaryBlock, known: Known): Column = {
    val taken = known.memory.taken
    val (header, columns) = load(plan, part, known.memory)
    known.bytes += Math.max(part.block.bodyLength, known.memory.taken - taken)
    val length = IpcFile.length(header)
    val column = columns(0)
    column.prove(column.length == length, s"a dictionary has ${column.length} values, and its batch $length rows")
    Limit.unless(bytes <= ReadOptions.DICTIONARY_BYTES, "dictionaries of %d bytes", bytes)
    column
  }

  /** Free the memory of replaced dictionaries; the vectors of earlier batches must not be used any more. */
  def release(): Unit = {
    replaced.foreach(_.memory.close())
    replaced.clear()
  }

  override def close(): Unit = if (dictionaries.nonEmpty || replaced.nonEmpty) {
    replaced ++= dictionaries.values
    dictionaries.clear()
    release()
  }
}

private object Dictionaries {
  /** The parts of a dictionary that have been read, and their memory; `values` is null until all parts are read. */
  private final class Known(val memory: Slabs) {
    val parts = new ArrayBuffer[DictionaryBlock]
    val columns = new ArrayBuffer[Column]
    var bytes = 0L
    var values: Column.Dictionary = _
  }
}
