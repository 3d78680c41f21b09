package org.arrowipc.spark

import java.io.{Closeable, FileNotFoundException}
import java.nio.file.NoSuchFileException
import org.apache.arrow.memory.RootAllocator
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.vectorized.{ColumnVectorUtils, ConstantColumnVector}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import scala.collection.mutable

/**
 * The batches of one split of a file: those whose messages begin in it, except those that the filters rule out.
 *
 * The vectors of a batch are valid until the next call of `next`.
 */
private final class FileBatches(
    split: PartitionedFile, wanted: StructType, partitionSchema: StructType, pruner: Pruner,
    options: ReadOptions, configuration: Configuration)
    extends Iterator[ColumnarBatch] with Closeable {
  private val path = split.toPath
  /** The open resources, the last opened first. */
  private val opened = mutable.Stack.empty[AutoCloseable]

  // Spark does not read to the end after a LIMIT or a failure, so the end of the task closes everything, too.
  Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => close()))
  private val (file, reader, numbers) = FileBatches.onError(close())(FileBatches.named(path.toString) {
    val allocator = kept(new RootAllocator)
    val file = kept(FileBatches.open(
      path, split.fileSize, split.start, split.start + split.length, options, configuration))
    val reader = kept(BatchReader.ofFile(file, wanted, options, allocator))
    val own = file.batches.indices.filter { number =>
      val start = file.batches(number).offset
      split.start <= start && start < split.start + split.length
    }
    (file, reader, pruner.kept(file, own).iterator)
  })

  private def kept[T <: AutoCloseable](resource: T): T = {
    opened.push(resource)
    resource
  }

  override def hasNext: Boolean = opened.nonEmpty && (numbers.hasNext || {
    close()
    file.fault.foreach(each => FileBatches.named(path.toString)(throw each.error))
    false
  })

  override def next(): ColumnarBatch = {
    val number = numbers.next()
    FileBatches.named(s"$path: record batch $number")(withPartition(reader.read(number)))
  }

  /** Append the partition columns to a batch: their values are in the names of the file's folders. */
  private def withPartition(batch: ColumnarBatch): ColumnarBatch = if (partitionSchema.isEmpty) batch else {
    val constants = partitionSchema.fields.zipWithIndex.map { case (field, at) =>
      val constant = new ConstantColumnVector(batch.numRows, field.dataType)
      ColumnVectorUtils.populate(constant, split.partitionValues, at)
      constant
    }
    new ColumnarBatch(Array.tabulate(batch.numCols)(batch.column) ++ constants, batch.numRows)
  }

  /** Close everything; further calls do nothing. */
  override def close(): Unit = while (opened.nonEmpty) opened.pop().close()
}

private object FileBatches {
  /** Open a file of the size that its listing states; of a stream, find only messages that begin in [start, end). */
  def open(path: Path, size: Long, start: Long, end: Long, options: ReadOptions, configuration: Configuration)
      : IpcFile = {
    val source = try {
      path.getFileSystem(configuration) match {
        case _: LocalFileSystem | _: RawLocalFileSystem => Source.local(path.toUri.getPath)
        case _ => Source.far(path, size, configuration)
      }
    } catch {
      case gone: NoSuchFileException => throw new FileNotFoundException(s"File ${gone.getMessage} does not exist")
    }
    onError(source.close()) {
      if (source.size != size) throw new ArrowIpcException.Usage(
        s"the file had $size bytes when it was listed and has ${source.size} now; " +
          "run REFRESH TABLE, or create the DataFrame again")
      // The schema, and a file that is not split, need no marks.
      def marks = if (end == 0 || (start == 0 && end >= size)) None else Marks.of(path, size, configuration)
      IpcFile.open(source, options, start = start, end = end, marks = marks)
    }
  }

  /** Run a function; if it fails, `undo` what would be left over. */
  def onError[T](undo: => Unit)(run: => T): T = try run catch {
    case error: Throwable =>
      undo
      throw error
  }

  /** Run a function, and add to the message of its error where it happened, and some help. */
  def named[T](where: String, help: String = "")(run: => T): T = try run catch {
    case error: ArrowIpcException =>
      val words = s"$where: ${error.getMessage}$help"
      throw (error match {
        case _: ArrowIpcException.Format => new ArrowIpcException.Format(words, error)
        case _: ArrowIpcException.Limit => new ArrowIpcException.Limit(words, error)
        case _: ArrowIpcException.Unsupported => new ArrowIpcException.Unsupported(words)
        case _ => new ArrowIpcException.Usage(words)
      })
  }
}
