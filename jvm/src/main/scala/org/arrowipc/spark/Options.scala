package org.arrowipc.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Locale
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import scala.io.Source.fromInputStream
import scala.jdk.CollectionConverters._

/** The options of a read or write: names and defaults come from the package's one table, which the jar brings along. */
final class Options(options: Map[String, String]) {
  private val lower = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }
  for ((name, instead) <- Options.others if lower.contains(name)) {
    throw new ArrowIpcException.Usage(s"option $name: Spark's file format has no such option; $instead")
  }

  def text(name: String): String = lower.getOrElse(name.toLowerCase(Locale.ROOT), Options.defaults(name))

  /** One of some words. */
  def choice(name: String, allowed: String*): String = {
    val found = text(name).trim.toLowerCase(Locale.ROOT)
    if (!allowed.contains(found)) {
      wrong(name, s"one of '${allowed.mkString("', '")}'")
    }
    found
  }

  def flag(name: String): Boolean = choice(name, "true", "false") == "true"

  def count(name: String, most: Int): Int =
    text(name).trim.toIntOption.filter(found => found >= 1 && found <= most)
      .getOrElse(wrong(name, s"a whole number from 1 to $most"))

  private def wrong(name: String, expected: String): Nothing =
    throw new ArrowIpcException.Usage(s"option $name: expected $expected, found '${text(name)}'")
}

object Options {
  def read(options: Map[String, String]): ReadOptions = {
    new Options(options).flag("mergeSchema") // checks them all
    new ReadOptions(new CaseInsensitiveStringMap(options.asJava))
  }

  private lazy val defaults: Map[String, String] = {
    val table = fromInputStream(getClass.getResourceAsStream("/META-INF/arrowipc/options.tsv"), UTF_8.name)
    try table.getLines().filter(_.contains('\t')).map(line => line.split("\t", 2)).map(each => each(0) -> each(1)).toMap
    finally table.close()
  }

  /** Options of the Python side that mean nothing here, by their names in lower case, and what to do instead. */
  private val others = Map(
    "columns" -> "choose columns with select(...)",
    "withmetadata" -> "select the column _metadata",
    "partitionby" -> "use partitionBy(...) of the writer",
    "filter" -> "use where(...)",
    "recover" -> "use ignoreCorruptFiles",
    "dictionarycolumns" -> "leave it out",
    "compressionlevel" -> "leave it out",
    "rowsperbatch" -> "leave it out: batches stay as long as they are",
    "batchesperpartition" -> "set spark.sql.files.maxPartitionBytes",
    "partitionbytes" -> "set spark.sql.files.maxPartitionBytes")
}

/** How files are written. */
final case class WriteOptions(
    stream: Boolean, compression: String, rows: Int, bytes: Int, statistics: Boolean) {
  def extension: String = if (stream) ".arrows" else ".arrow"
}

object WriteOptions {
  /** A vector of Arrow Java, and the offsets of its texts, hold no more than 2 GiB. */
  private val MOST_BYTES = 1 << 30

  def of(asked: Map[String, String]): WriteOptions = {
    val options = new Options(asked)
    val found = WriteOptions(
      options.choice("format", "auto", "file", "stream") == "stream",
      options.choice("compression", "none", "uncompressed", "lz4", "zstd"),
      options.count("batchRows", Int.MaxValue), options.count("batchBytes", MOST_BYTES), options.flag("statistics"))
    if (found.stream && found.statistics) {
      throw new ArrowIpcException.Usage("option statistics: readers look for statistics of files only, not of " +
        "streams; leave it out, or write format=file")
    }
    found
  }
}
