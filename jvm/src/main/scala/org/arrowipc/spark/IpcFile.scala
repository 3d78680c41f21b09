package org.arrowipc.spark

import java.nio.ByteOrder.LITTLE_ENDIAN
import java.nio.charset.StandardCharsets.US_ASCII
import java.util
import com.google.flatbuffers.Table
import org.apache.arrow.flatbuf
import org.apache.arrow.flatbuf.MessageHeader
import org.apache.arrow.vector.types.pojo.{Field, Schema}
import org.arrowipc.spark.ArrowIpcException.{Format, Limit}
import org.arrowipc.spark.IpcFile._
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Try

/** Where each message of an Arrow file or stream is: from a file's footer, or from the headers of a stream. */
final class IpcFile private (private[spark] val source: Source, private var found: Schema) extends AutoCloseable {
  /** Of a stream that marks were given for, batches before the last mark have the block `Unknown`. */
  val batches = mutable.ArrayBuffer.empty[Block]
  private[this] val known = mutable.ArrayBuffer.empty[DictionaryBlock]
  private[this] var unread: Seq[Block] = Nil
  /** The rows of each batch of a stream; empty for a file. */
  private[this] val counts = mutable.ArrayBuffer.empty[Long]
  /** Where the Schema message of a stream ends; 0 for files, and for streams without one. */
  private[spark] var schemaEnd = 0L
  /** The ids of the dictionaries that the schema's fields use. */
  private[this] lazy val ids = idsOf(found.getFields)
  private[this] var torn: Option[Fault] = None

  def schema: Schema = found

  /** The error that ends a stream too early, if any. A caller that has read all `batches` before it must raise it. */
  def fault: Option[Fault] = torn

  /** The rows of a batch; for a file, this reads the header of the batch. */
  def rows(number: Int): Long =
    if (counts.nonEmpty) counts(number)
    else Metadata.guarded(s"batch $number")(IpcFile.length(batch(header(batches(number)))))

  override def close(): Unit = source.close()

  // -- files ---------------------------------------------------------------------------------------------------

  private def readFooter(): Unit = {
    val size = source.size
    Format.unless(size >= 2 * Tail, "the file is cut short: it has %d bytes", size)
    val tail = source.read(size - Tail, Tail).order(LITTLE_ENDIAN)
    Format.unless(tail.slice(4, Tail - 4) == Magic, "the file has no footer: it does not end with ARROW1")
    val length = tail.getInt(0)
    val room = size - Tail - 8
    Format.unless(0 < length && length <= room, "a footer of %d bytes does not fit a file of %d", length, size)
    val most = ReadOptions.METADATA_BYTES + 24L * (room / 16)
    Limit.unless(length <= most, "a footer of %d bytes: more than %d", length, most)
    val limit = size - Tail - length
    val footer = Metadata.footer(source.read(limit, length))
    found = Metadata.schema(footer.schema)
    Format.unless(ids.nonEmpty || footer.dictionariesLength == 0, "the file has dictionaries that no field uses")
    batches ++= Seq.tabulate(footer.recordBatchesLength)(i => block(i, footer.recordBatches(i), limit))
    unread = Seq.tabulate(footer.dictionariesLength)(i => block(i, footer.dictionaries(i), limit))
    val total = unread.map(each => each.metadataLength + each.bodyLength).sum
    Limit.unless(total <= size + ReadOptions.OVERLAP_BYTES, "the dictionaries are more than the file")
  }

  /** The dictionary messages; the headers of a file's dictionaries are read when this is used first. */
  private[spark] lazy val dictionaries: collection.Seq[DictionaryBlock] = {
    val seen = mutable.HashSet.empty[Long]
    known ++= unread.map { block =>
      val each = dictionary(block, header(block), 0)
      Format.unless(seen.add(each.id) || each.delta,
        "dictionary %d is listed twice without being a delta; a file cannot replace dictionaries", each.id)
      each
    }
  }

  // -- streams -------------------------------------------------------------------------------------------------

  /**
   * Take the messages that begin in [start, end), and the Schema message in any case. A stream whose schema is known
   * already may lack that message.
   */
  private def walk(start: Long, end: Long): Unit = {
    var at = start
    try Metadata.guarded("the stream")(while (at < source.size && (at < end || found == null)) at = step(at))
    catch { case error: ArrowIpcException if found != null => torn = Some(Fault(at, error)) }
    Format.unless(found != null && source.size > 0, "not an Arrow stream: it ends before its schema")
  }

  /** Find the schema, and the messages that begin in [start, end) at least: begin at the last mark that still holds. */
  private def walk(start: Long, end: Long, marks: Marks): Unit = {
    walk(0, 0)
    val mark = marks.before(start).filter(holds)
    mark.foreach { each =>
      batches ++= Iterator.fill(each.number)(Unknown)
      counts ++= Iterator.fill(each.number)(0L)
      known ++= each.dictionaries
    }
    walk(mark.fold(schemaEnd)(_.block.offset), end)
    if (batches.nonEmpty) {
      val last = batches.size - 1
      marks.add(new Marks.Mark(batches(last), last, known.takeWhile(_.before <= last).toVector))
    }
  }

  /** Whether the headers of a mark's batch, and of the dictionaries before it, are still there. */
  private def holds(mark: Marks.Mark): Boolean = Try {
    batch(header(mark.block))
    mark.dictionaries.forall(each => dictionary(each.block, header(each.block), each.before) == each)
  }.getOrElse(false)

  /** Take the message at byte `at` of the stream; return where the next one begins, or the source's end. */
  private def step(at: Long): Long = {
    var head = source.read(at, math.min(Head, source.size - at).toInt).order(LITTLE_ENDIAN)
    def short = new Format(s"the stream is cut short at byte $at")
    if (head.remaining < 4) throw short
    val prefix = prefixOf(head)
    if (head.remaining < prefix) throw short
    val length = head.getInt(prefix - 4)
    if (length == 0) return source.size
    if (length < 0 || length > source.size - at - prefix) throw new Format(
      s"not an Arrow stream, or cut short: $length bytes of metadata at byte $at of ${source.size}")
    if (length > ReadOptions.METADATA_BYTES) throw new Limit(s"$length bytes of metadata at byte $at")
    if (length > head.remaining - prefix) head = source.read(at, prefix + length)
    val message = Metadata.message(head.slice(prefix, length))
    val room = source.size - at - prefix - length
    if (message.bodyLength > room) throw new Format(s"the stream is cut short: a message at byte $at has a body of " +
      s"${message.bodyLength} bytes, and $room are left")
    // Keep the message if its bytes are in memory anyway, so that it is not verified twice.
    take(message, new Block(at, prefix + length, message.bodyLength, if (source.address == 0) null else message))
    at + prefix + length + message.bodyLength
  }

  private def take(message: flatbuf.Message, block: Block): Unit = {
    val kind = message.headerType
    // Without a Schema message, other messages are accepted only if the schema is known beforehand.
    if (if (kind == MessageHeader.Schema) block.offset > 0 else found == null) throw new Format(
      s"expected one Schema message, at the start of the stream; found a message of kind $kind")
    if (kind == MessageHeader.Schema) {
      found = Metadata.schema(IpcFile.header(message, kind, new flatbuf.Schema))
      schemaEnd = block.offset + block.metadataLength + block.bodyLength
    } else if (kind == MessageHeader.DictionaryBatch) known += dictionary(block, message, batches.size)
    else {
      counts += IpcFile.length(batch(message))
      batches += block
    }
  }

  // -- messages ------------------------------------------------------------------------------------------------

  /** The message of a block; refuse it if its lengths are not those that the block states. */
  private[spark] def header(block: Block): flatbuf.Message = if (block.message != null) block.message else {
    Limit.unless(block.metadataLength <= ReadOptions.METADATA_BYTES + 8, "%d bytes of metadata", block.metadataLength)
    val bytes = source.read(block.offset, block.metadataLength).order(LITTLE_ENDIAN)
    val prefix = prefixOf(bytes)
    val length = bytes.getInt(prefix - 4)
    Format.unless(0 < length && length == block.metadataLength - prefix,
      "a message at byte %d states %d bytes of metadata, not %d", block.offset, length, block.metadataLength)
    val message = Metadata.message(bytes.slice(prefix, length))
    Format.unless(message.bodyLength == block.bodyLength, "a message at byte %d states a body of %d bytes, and its "
      + "block %d", block.offset, message.bodyLength, block.bodyLength)
    message
  }

  private def dictionary(block: Block, message: flatbuf.Message, before: Int): DictionaryBlock = {
    val found = dictionaryBatch(message)
    Format.unless(ids.contains(found.id), "dictionary %d is not used by any field of the schema", found.id)
    DictionaryBlock(block, found.id, found.isDelta, before)
  }
}

object IpcFile {
  private val Magic = US_ASCII.encode("ARROW1")
  private val Tail = 10
  private val Head = 4096L
  private val Unknown = new Block(-1, 0, 0, null)

  /** Where a message is: `metadataLength` includes the prefix; the body follows. Without `message`, it must be read. */
  final class Block(val offset: Long, val metadataLength: Int, val bodyLength: Long, val message: flatbuf.Message)

  /** A dictionary message, which applies to the batches from number `before` on. */
  private[spark] final case class DictionaryBlock(block: Block, id: Long, delta: Boolean, before: Int)

  /** An error at byte `offset` of a stream. */
  final case class Fault(offset: Long, error: ArrowIpcException)

  /**
   * Read the footer of a file; or of a stream its schema, and the headers that begin before `end`. The returned object
   * owns the source. With a `given` schema, a stream may lack its own. With marks, headers before `start` may be left
   * out.
   */
  def open(source: Source, options: ReadOptions, given: Schema = null, start: Long = 0, end: Long = Long.MaxValue,
      marks: => Option[Marks] = None): IpcFile = Metadata.guarded("the file") {
    val magic = source.read(0, math.min(Magic.remaining, source.size).toInt) == Magic
    Format.unless(magic || options.format != "file", "not an Arrow file: it does not begin with ARROW1")
    val file = new IpcFile(source, given)
    if (magic && options.format != "stream") file.readFooter()
    else marks.fold(file.walk(0, end))(file.walk(start, end, _))
    Plan.of(file.schema.getFields) // raises an error if the schema is invalid
    file
  }

  /** Find the messages from byte `start` on in a stream whose schema is known. */
  private[spark] def rest(source: Source, schema: Schema, start: Long): IpcFile = {
    val file = new IpcFile(source, schema)
    file.walk(start, Long.MaxValue)
    file
  }

  private def prefixOf(message: java.nio.ByteBuffer): Int = if (message.getInt(0) == -1) 8 else 4

  private def block(number: Int, block: flatbuf.Block, limit: Long): Block = {
    val (offset, head, body) = (block.offset, block.metaDataLength, block.bodyLength)
    Format.unless(
      offset >= 8 && head >= 8 && body >= 0 && offset <= limit && head <= limit - offset
        && body <= limit - offset - head,
      "block %d at %d + %d + %d is not inside the file's %d", number, offset, head, body, limit)
    Format.unless(((offset | head | body) & 7) == 0, "block %d at %d + %d + %d is not made of multiples of 8",
      number, offset, head, body)
    new Block(offset, head, body, null)
  }

  private def header[T <: Table](message: flatbuf.Message, kind: Byte, into: T): T = {
    if (message.headerType != kind) throw new Format(
      s"expected a ${MessageHeader.name(kind)} message, found kind ${message.headerType}")
    message.header(into).asInstanceOf[T]
  }

  private[spark] def batch(message: flatbuf.Message): flatbuf.RecordBatch =
    header(message, MessageHeader.RecordBatch, new flatbuf.RecordBatch)

  private[spark] def dictionaryBatch(message: flatbuf.Message): flatbuf.DictionaryBatch =
    header(message, MessageHeader.DictionaryBatch, new flatbuf.DictionaryBatch)

  private def idsOf(fields: util.List[Field]): Set[Long] = fields.asScala.flatMap { field =>
    idsOf(field.getChildren) ++ Option(field.getDictionary).map(_.getId)
  }.toSet

  /** Return the number of rows that a header states; refuse one beyond the limit. */
  private[spark] def length(batch: flatbuf.RecordBatch): Long = {
    val length = batch.length
    def words = s"a batch states $length rows"
    if (length < 0) throw new Format(words)
    if (length > ReadOptions.ROWS_PER_BATCH) throw new Limit(words)
    length
  }
}
