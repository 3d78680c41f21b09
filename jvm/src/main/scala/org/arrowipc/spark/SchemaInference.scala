package org.arrowipc.spark

import java.io.FileNotFoundException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration
import scala.jdk.CollectionConverters._

/** Infers the schema of files: the schema of the first file, or with `mergeSchema` one schema for all files. */
private final class SchemaInference(session: SparkSession, options: Map[String, String]) {
  private val read = new ReadOptions(options.asJava)
  private val spark = new FileSourceOptions(options)

  def schema(files: Seq[FileStatus]): Option[StructType] = {
    // Leave out empty files: Spark plans no reads of them.
    val found = files.filter(_.getLen > 0).map(file => (file.getPath.toString, file.getLen)).sorted
    val look = SchemaInference.Look(read, spark.ignoreMissingFiles, spark.ignoreCorruptFiles)
    val configuration = session.sessionState.newHadoopConfWithOptions(options)
    if (!read.mergeSchema) found.iterator.flatMap(look.at(_, configuration)).nextOption()
    else {
      val sent = new SerializableConfiguration(configuration)
      val caseSensitive = session.sessionState.conf.caseSensitiveAnalysis
      val context = session.sparkContext
      val tasks = math.max(1, math.min(found.size, context.defaultParallelism))
      context.parallelize(found, tasks).mapPartitions { part =>
        part.flatMap(look.at(_, sent.value)).distinct.reduceOption(Unify.merged(_, _, caseSensitive)).iterator
      }.collect().reduceOption(Unify.merged(_, _, caseSensitive))
    }
  }
}

private object SchemaInference {
  /** Reads the schemas of files, on the driver or in tasks; skips missing or corrupt files if the options say so. */
  final case class Look(read: ReadOptions, ignoreMissing: Boolean, ignoreCorrupt: Boolean) extends Logging {
    def at(file: (String, Long), configuration: Configuration): Option[StructType] = try {
      FileBatches.named(file._1) {
        val opened = FileBatches.open(new Path(file._1), file._2, 0, 0, read, configuration)
        try Some(SparkSchema.of(opened.schema, read)) finally opened.close()
      }
    } catch {
      case gone: FileNotFoundException if ignoreMissing => passed(file._1, gone)
      case gone: FileNotFoundException => throw gone
      case corrupt @ (_: RuntimeException | _: java.io.IOException) if ignoreCorrupt => passed(file._1, corrupt)
    }

    private def passed(path: String, error: Throwable): Option[StructType] = {
      logWarning(s"Skipped for its schema: $path", error)
      None
    }
  }
}
