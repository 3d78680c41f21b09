package org.arrowipc.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Base64, Locale}
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.types.{DataType, LongType}
import scala.io.Source.fromInputStream
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

/**
 * The options of a `read` or `write`, checked by the table of `arrowipc.spark.options`, which is a file in the jar.
 * Options that are not in it are for Spark, or properties of a table.
 */
private[spark] final class Options(asked: Map[String, String], use: String) {
  private[this] val lower = asked.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }
  for (option <- Options.table if option.use == "refused"; name <- lower.keys if option.is(name)) {
    throw new ArrowIpcException.Usage(s"option ${option.name}: Spark's file format does not have it; ${option.kind}")
  }
  private[this] val known = Options.table.filter(_.use == use).map(option => option.name -> checked(option)).toMap

  private def checked(option: Options.Option): String = {
    val given = lower.getOrElse(option.name.toLowerCase(Locale.ROOT), option.default)
    if (option.kind == "text") return given
    val found = given.trim.toLowerCase(Locale.ROOT)
    val (good, expected) = option.kind match {
      case "flag" => (found == "true" || found == "false", "true or false")
      case "count" => (found.toIntOption.exists(_ > 0), "a whole number from 1")
      case "size" => (found.toIntOption.exists(_ >= 0), "a whole number from 0")
      case "bytes" => (Try(JavaUtils.byteStringAsBytes(found)).toOption.exists(_ > 0), "bytes, such as 4194304 or 4m")
      case words => (words.split('|').contains(found), s"one of ${words.replace("|", ", ")}")
    }
    if (!good) throw new ArrowIpcException.Usage(s"option ${option.name}: expected $expected, found '$found'")
    found
  }

  def text(name: String): String = known(name)
  def flag(name: String): Boolean = known(name) == "true"
  def count(name: String): Int = known(name).toInt
  def bytes(name: String): Long = JavaUtils.byteStringAsBytes(known(name))
}

private object Options {
  /** The options of a function: those for its `use`, and those that it shares with others; refuse unknown names. */
  def known(function: String, asked: Map[String, String], use: String, shared: Set[String]): Options = {
    val names = shared ++ table.filter(_.use == use).map(_.name)
    for (name <- asked.keys if !names(name.toLowerCase(Locale.ROOT))) throw new ArrowIpcException.Usage(
      s"$function has no option '$name'; there are ${names.toSeq.sorted.mkString(", ")}")
    new Options(asked, use)
  }

  /** `use` is `read`, `write`, `payload`, `encode` or `refused`; `kind` is a type, or advice for a refused option. */
  final case class Option(name: String, default: String, use: String, kind: String) {
    /** Whether a name in lower case is this option; one that ends with a dot stands for all names beginning with it. */
    def is(other: String): Boolean = {
      val own = name.toLowerCase(Locale.ROOT)
      if (own.endsWith(".")) other.startsWith(own) else other == own
    }
  }

  lazy val table: Seq[Option] =
    Using.resource(fromInputStream(getClass.getResourceAsStream("/META-INF/arrowipc/options.tsv"), UTF_8.name)) {
      _.getLines().map(_.split("\t", -1)).map(each => Option(each(0), each(1), each(2), each(3))).toList
    }
}

/** @param time Spark's type for times of day */
final class ReadOptions private (options: Options, val time: DataType) extends Serializable {
  /** The options of a session, which may refuse TIME. */
  def this(asked: java.util.Map[String, String]) = this(new Options(asked.asScala.toMap, "read"), SparkTypes.time())

  val format: String = options.text("format")
  val mergeSchema: Boolean = options.flag("mergeSchema")
  /** Whether every offset, index and length is checked before Spark gets a vector. */
  val validate: Boolean = options.text("validate") == "full"
  val nanoseconds: String = options.text("nanoseconds")
  val unsupported: String = options.text("unsupported")
  val extensions: Boolean = options.flag("extensions")
}

/** Limits for untrusted bytes: those of `arrowipc.Limits`, which states the reasons, and PAYLOAD_BYTES. */
object ReadOptions {
  /** The options for payloads, which have TIME like the Python functions, even if the session refuses it. */
  private[spark] def ofPayloads(asked: Map[String, String]): ReadOptions =
    new ReadOptions(new Options(asked, "read"), SparkTypes.TIME.getOrElse(LongType))

  val METADATA_BYTES: Long = 16L << 20
  val DEPTH = 64
  val ROWS_PER_BATCH: Long = Int.MaxValue
  val DECOMPRESSED_BYTES: Long = 2L << 30
  val DECOMPRESSED_RATIO = 1000L
  val DECOMPRESSED_SLACK: Long = 1L << 30
  val DICTIONARY_BYTES: Long = 2L << 30
  val OVERLAP_BYTES: Long = 64L << 20
  /** The memory of all payloads that a task holds at a time, one for each function, and of what they decompress to. */
  val PAYLOAD_BYTES: Long = 4L << 30
}

private[spark] final class WriteOptions private (options: Options) extends Serializable {
  def this(asked: Map[String, String]) = this(new Options(asked, "write"))

  val stream: Boolean = options.text("format") == "stream"
  val compression: String = options.text("compression")
  val rows: Int = options.count("batchRows")
  /** At most 1 GiB: the offsets of a batch's texts reach 2 GiB, and the last row may exceed the bound. */
  val bytes: Long = math.min(options.bytes("batchBytes"), 1L << 30)
  val statistics: Boolean = options.flag("statistics")
  /** What to do about texts that are not UTF-8. */
  val invalidText: String = options.text("invalid_text")
}

/** How the cells of a column are decoded: by options of their own, and by some of the options of reading. */
private[spark] final class PayloadOptions private (options: Options, val read: ReadOptions) extends Serializable {
  def this(asked: Map[String, String]) = this(
    Options.known("from_arrow", asked, "payload", Set("validate", "nanoseconds", "unsupported", "extensions")),
    ReadOptions.ofPayloads(asked))

  val onError: String = options.text("on_error")
  /** The name of each row's last field, for the reason why a payload could not be read; empty: no such field. */
  val errorColumn: String = options.text("error_column")
  /** Bytes of each cell before its message. */
  val prefix: Int = options.count("prefix")
  /** The name of the column of payloads in error messages. */
  val column: String = options.text("column")
  /** The Schema message for payloads that have none. */
  val schema: Array[Byte] = Base64.getDecoder.decode(options.text("schema"))
}

/** How rows are encoded as payloads: by options of their own, and by some of the options of writing. */
private[spark] final class EncodeOptions private (options: Options, write: WriteOptions) extends Serializable {
  def this(asked: Map[String, String]) =
    this(Options.known("to_arrow", asked, "encode", Set("compression", "invalid_text")), new WriteOptions(asked))

  val withSchema: Boolean = options.flag("with_schema")
  val compression: String = write.compression
  val invalidText: String = write.invalidText
}
