package org.arrowipc.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Locale
import scala.io.Source.fromInputStream
import scala.jdk.CollectionConverters._

/** The options of a read or write: names and defaults come from the package's one table, which the jar brings along. */
private[spark] final class Options(asked: Map[String, String]) {
  private[this] val lower = asked.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }
  for ((name, instead) <- Options.others if lower.contains(name.toLowerCase(Locale.ROOT))) {
    throw new ArrowIpcException.Usage(s"option $name: Spark's file format has no such option; $instead")
  }

  def text(name: String): String = lower.getOrElse(name.toLowerCase(Locale.ROOT), Options.defaults(name))

  /** One of some words. */
  def choice(name: String, allowed: String*): String = {
    val found = text(name).trim.toLowerCase(Locale.ROOT)
    if (!allowed.contains(found)) wrong(name, s"one of '${allowed.mkString("', '")}'")
    found
  }

  def flag(name: String): Boolean = choice(name, "true", "false") == "true"

  def count(name: String, most: Int): Int = text(name).trim.toIntOption.filter(found => found >= 1 && found <= most)
    .getOrElse(wrong(name, s"a whole number from 1 to $most"))

  private def wrong(name: String, expected: String): Nothing =
    throw new ArrowIpcException.Usage(s"option $name: expected $expected, found '${text(name)}'")
}

private object Options {
  private lazy val defaults: Map[String, String] = {
    val table = fromInputStream(getClass.getResourceAsStream("/META-INF/arrowipc/options.tsv"), UTF_8.name)
    try table.getLines().map(_.split("\t", 2)).collect { case Array(name, default) => name -> default }.toMap
    finally table.close()
  }

  /** Options that the Python side has and Spark's file machinery does otherwise, and what to do instead. */
  private val others = Map(
    "columns" -> "choose columns with select(...)",
    "withMetadata" -> "select the column _metadata",
    "partitionBy" -> "use partitionBy(...) of the writer",
    "filter" -> "use where(...)",
    "recover" -> "use ignoreCorruptFiles",
    "dictionaryColumns" -> "leave it out",
    "compressionLevel" -> "leave it out",
    "rowsPerBatch" -> "leave it out: batches stay as long as they are",
    "batchesPerPartition" -> "set spark.sql.files.maxPartitionBytes",
    "partitionBytes" -> "set spark.sql.files.maxPartitionBytes")
}

/** How files are read. */
final class ReadOptions private (options: Options) extends Serializable {
  def this(asked: java.util.Map[String, String]) = this(new Options(asked.asScala.toMap))

  /** `auto`, `file` or `stream`. */
  val format: String = options.choice("format", "auto", "file", "stream")
  /** Whether the schema of a read holds the columns of all files, not of one. */
  val mergeSchema: Boolean = options.flag("mergeSchema")
  /** Whether every offset, index and length is proven before Spark gets a vector. */
  val validate: Boolean = options.choice("validate", "full", "none") == "full"
  /** `error`, `truncate` or `long`. */
  val nanoseconds: String = options.choice("nanoseconds", "error", "truncate", "long")
  /** `error`, `drop` or `string`. */
  val unsupported: String = options.choice("unsupported", "error", "drop", "string")
  /** Whether extension types become what they mean. */
  val extensions: Boolean = options.flag("extensions")
}

/** Bounds on what untrusted bytes may ask for: those of `arrowipc.Limits`, with its reasons. */
object ReadOptions {
  val METADATA_BYTES: Long = 16L << 20
  val DEPTH = 64
  val ROWS_PER_BATCH: Long = Int.MaxValue
  val DECOMPRESSED_BYTES: Long = 2L << 30
  val DECOMPRESSED_RATIO = 1000L
  val DECOMPRESSED_SLACK: Long = 1L << 30
  val DICTIONARY_BYTES: Long = 2L << 30
  val OVERLAP_BYTES: Long = 64L << 20
}

/** How files are written. */
private[spark] final case class WriteOptions(
    stream: Boolean, compression: String, rows: Int, bytes: Int, statistics: Boolean) {
  def extension: String = if (stream) ".arrows" else ".arrow"
}

private[spark] object WriteOptions {
  /** The offsets of a batch's texts reach 2 GiB; a row may go beyond the bound. */
  private val MOST_BYTES = 1 << 30

  def of(asked: Map[String, String]): WriteOptions = {
    val options = new Options(asked)
    val found = WriteOptions(
      options.choice("format", "auto", "file", "stream") == "stream",
      options.choice("compression", "none", "uncompressed", "lz4", "zstd"),
      options.count("batchRows", Int.MaxValue), options.count("batchBytes", MOST_BYTES), options.flag("statistics"))
    if (found.stream && found.statistics) {
      throw new ArrowIpcException.Usage("option statistics: readers look for statistics in files only, not in " +
        "streams; leave it out, or write format=file")
    }
    found
  }
}
