package org.arrowipc.spark

import java.util
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.arrowipc.spark.IpcFile.{Block, DictionaryBlock}
import scala.util.Try

/**
 * Where some batches of a stream begin, as the tasks of this JVM have found them. A stream has no index: without marks,
 * the task of each split would read the headers of all messages before it.
 */
private[spark] final class Marks private (size: Long) {
  import Marks._

  /** At most one mark in each of these equal parts of the file. */
  private[this] val found = new Array[Mark](PARTS)

  private def part(offset: Long): Int = (offset / (size / PARTS + 1)).toInt

  /** The last mark at byte `offset` or before it. */
  def before(offset: Long): Option[Mark] = synchronized {
    Iterator.range(part(offset), -1, -1).map(found(_)).find(mark => mark != null && mark.block.offset <= offset)
  }

  def add(mark: Mark): Unit = if (mark.dictionaries.size <= DICTIONARIES) synchronized {
    found(part(mark.block.offset)) = mark
  }
}

private[spark] object Marks {
  private final val FILES = 64
  private final val PARTS = 256
  /** A stream with more dictionary messages than these before a batch gets no marks behind them. */
  private final val DICTIONARIES = 64
  /** A file gets marks this time after its last change: until then, another change may leave its time as it is. */
  private final val SETTLED_MILLIS = 2000L

  /** A batch: its block, its number, and the dictionary messages before it. */
  final class Mark(val block: Block, val number: Int, val dictionaries: Seq[DictionaryBlock])

  /** The marks of the files that were used last, by path, size and time of change. */
  private val files = new util.LinkedHashMap[(String, Long, Long), Marks](16, 0.75f, true) {
    override def removeEldestEntry(eldest: util.Map.Entry[(String, Long, Long), Marks]): Boolean = size > FILES
  }

  /** The marks of a file as it is now; None if it has changed just before, or nothing is known about it. */
  def of(path: Path, size: Long, configuration: Configuration): Option[Marks] =
    Try(path.getFileSystem(configuration).getFileStatus(path).getModificationTime).toOption
      .filter(time => 0 < time && time < System.currentTimeMillis - SETTLED_MILLIS)
      .map(time => synchronized(files.computeIfAbsent((path.toString, size, time), _ => new Marks(size))))
}
