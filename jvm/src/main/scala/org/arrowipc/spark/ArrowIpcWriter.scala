package org.arrowipc.spark

import java.io.OutputStream
import java.nio.channels.Channels
import java.nio.charset.StandardCharsets.{US_ASCII, UTF_8}
import com.google.flatbuffers.FlatBufferBuilder
import org.apache.arrow.flatbuf.{KeyValue, Message, MessageHeader, MetadataVersion}
import org.apache.arrow.memory.{ArrowBuf, BufferAllocator, RootAllocator}
import org.apache.arrow.memory.util.MemoryUtil.directBuffer
import org.apache.arrow.vector.{FieldVector, VarCharVector, VectorSchemaRoot, VectorUnloader}
import org.apache.arrow.vector.complex.{ListVector, MapVector, StructVector}
import org.apache.arrow.vector.compression._
import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.{ArrowBlock, ArrowFooter, ArrowRecordBatch, MessageSerializer}
import org.apache.arrow.vector.types.pojo.{ArrowType, Schema}
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types.StructType
import org.arrowipc.spark.payloads.Frames
import scala.util.Using

/** Makes the writer of each file that a task begins. */
private final class ArrowIpcWriterFactory(options: WriteOptions) extends OutputWriterFactory {
  override def getFileExtension(context: TaskAttemptContext): String = if (options.stream) ".arrows" else ".arrow"

  override def newInstance(path: String, schema: StructType, context: TaskAttemptContext): OutputWriter = {
    val target = new Path(path)
    val arrow = SparkSchema.arrow(schema, options.invalidText)
    val stream = target.getFileSystem(context.getConfiguration).create(target, false)
    new ArrowIpcWriter(path, schema, options, new IpcOutput(stream, arrow, options))
  }
}

/** Collects the rows of one file into batches; a batch ends when it has the rows or bytes that `options` state. */
private final class ArrowIpcWriter(override val path: String, schema: StructType, options: WriteOptions, out: IpcOutput)
    extends OutputWriter {
  private val allocator = new RootAllocator
  private val root = VectorSchemaRoot.create(out.schema, allocator)
  private val batch = ArrowWriter.create(root)
  private lazy val project = UnsafeProjection.create(schema)
  private var rows = 0
  private var bytes = 0L
  /** The rows of the batches that are written already. */
  private var before = 0L
  private var failed = false

  override def write(row: InternalRow): Unit = guarded {
    val unsafe = row match { // which can return texts as binary, too
      case unsafe: UnsafeRow => unsafe
      case other => project(other)
    }
    batch.write(unsafe)
    rows += 1
    bytes += unsafe.getSizeInBytes
    if (rows >= options.rows || bytes >= options.bytes) flush()
  }

  private def flush(): Unit = if (rows > 0) {
    batch.finish()
    root.getFieldVectors.forEach(each => checkTexts(each, each.getName, identity))
    out.write(root)
    batch.reset()
    before += rows
    rows = 0
    bytes = 0
  }

  /** Refuse or replace texts that are not UTF-8, which Spark allows; `rowOf` returns the batch's row of a value. */
  private def checkTexts(vector: FieldVector, column: String, rowOf: Int => Int): Unit = vector match {
    case texts: VarCharVector => firstInvalid(texts).foreach { at =>
      if (options.invalidText == "error") throw new ArrowIpcException.Usage(
        s"$path: column '$column' holds a text in row ${before + rowOf(at)} that is " +
          SparkSchema.notUtf8(texts.get(at)))
      replace(texts)
    }
    case struct: StructVector =>
      struct.getChildrenFromFields.forEach(each => checkTexts(each, s"$column.${each.getName}", rowOf))
    case lists: ListVector =>
      val part = if (lists.isInstanceOf[MapVector]) "entries" else "element"
      checkTexts(lists.getDataVector, s"$column.$part", at =>
        rowOf((0 until lists.getValueCount).indexWhere(at < lists.getElementEndIndex(_))))
    case _ =>
  }

  private def firstInvalid(texts: VarCharVector): Option[Int] = {
    val (count, data) = (texts.getValueCount, texts.getDataBuffer.memoryAddress)
    def end(at: Int) = texts.getOffsetBuffer.getInt(4L * at)
    if (count == 0 || Validator.isAscii(data, end(count))) None
    else (0 until count).find(at => !Validator.isUtf8(data + end(at), end(at + 1) - end(at)))
  }

  /** Replace invalid UTF-8 with U+FFFD. */
  private def replace(texts: VarCharVector): Unit =
    Using.resource(new VarCharVector(texts.getField, allocator)) { good =>
      for (at <- 0 until texts.getValueCount if !texts.isNull(at)) {
        good.setSafe(at, new String(texts.get(at), UTF_8).getBytes(UTF_8))
      }
      good.setValueCount(texts.getValueCount)
      good.makeTransferPair(texts).transfer()
    }

  /** Note a failure, so that `close` does not finish the file: Spark also closes the writers of failed tasks. */
  private def guarded(run: => Unit): Unit = FileBatches.onError { failed = true }(run)

  override def close(): Unit = try {
    if (!failed) guarded {
      flush()
      out.finish()
    }
  } finally {
    root.close()
    allocator.close()
    out.close()
  }
}

/** Writes the messages of an Arrow file or stream. */
private final class IpcOutput(stream: OutputStream, val schema: Schema, options: WriteOptions) {
  private val out = new WriteChannel(Channels.newChannel(stream))
  private val frames = Codec.named(options.compression).map(_.frames())
  private val codec = frames.fold[CompressionCodec](NoCompressionCodec.INSTANCE)(new IpcOutput.Compression(_))
  private val statistics = if (options.statistics) Some(new Statistics(schema)) else None
  private val blocks = new java.util.ArrayList[ArrowBlock]
  if (!options.stream) out.write(IpcOutput.MAGIC.padTo(8, 0.toByte))
  MessageSerializer.serialize(out, schema)

  def write(root: VectorSchemaRoot): Unit =
    Using.resource(new VectorUnloader(root, true, codec, true).getRecordBatch) { batch =>
      val start = out.getCurrentPosition
      val pairs = statistics.map(each => Statistics.KEY -> each.of(root)).toSeq
      val message = IpcOutput.message(batch, batch.computeBodyLength, pairs)
      val length = MessageSerializer.writeMessageBuffer(out, message.remaining, message)
      blocks.add(new ArrowBlock(start, length, MessageSerializer.writeBatchBuffers(out, batch)))
    }

  /** Write the end marker, and the footer of a file. */
  def finish(): Unit = {
    out.writeIntLittleEndian(-1)
    out.writeIntLittleEndian(0)
    if (!options.stream) {
      val start = out.getCurrentPosition
      out.write(new ArrowFooter(schema, java.util.List.of(), blocks), false)
      out.writeIntLittleEndian((out.getCurrentPosition - start).toInt)
      out.write(IpcOutput.MAGIC)
    }
  }

  def close(): Unit = try out.close() finally frames.foreach(_.close())
}

private[spark] object IpcOutput {
  private val MAGIC = "ARROW1".getBytes(US_ASCII)

  /** The metadata of a batch's message with custom metadata, which Arrow Java's writers do not write. */
  def message(batch: ArrowRecordBatch, body: Long, metadata: Seq[(String, String)]): java.nio.ByteBuffer = {
    val builder = new FlatBufferBuilder
    val header = batch.writeTo(builder)
    val pairs = metadata.map { case (key, value) =>
      KeyValue.createKeyValue(builder, builder.createString(key), builder.createString(value))
    }
    val vector = if (pairs.isEmpty) 0 else Message.createCustomMetadataVector(builder, pairs.toArray)
    builder.finish(Message.createMessage(
      builder, MetadataVersion.V5, MessageHeader.RecordBatch, header, body, vector))
    builder.dataBuffer
  }

  /** A codec of our own: Arrow Java's are in a library that Spark 4.0 does not have, but it has the compressors. */
  private final class Compression(frames: Frames) extends AbstractCompressionCodec {
    override def getCodecType: CompressionUtil.CodecType = CompressionUtil.CodecType.fromCompressionType(frames.codec)

    /** Compress a buffer; store it as it is if its frame may have 2 GiB, of which Java's buffers have less. */
    override def compress(allocator: BufferAllocator, plain: ArrowBuf): ArrowBuf =
      if (plain.writerIndex <= Int.MaxValue && frames.bound(plain.writerIndex.toInt) <= Int.MaxValue)
        super.compress(allocator, plain)
      else Using.resource(plain)(CompressionUtil.packageRawBuffer(allocator, _))

    override protected def doCompress(allocator: BufferAllocator, plain: ArrowBuf): ArrowBuf = {
      val size = plain.writerIndex.toInt
      val room = frames.bound(size).toInt
      val found = allocator.buffer(8L + room)
      val (from, into) = (directBuffer(plain.memoryAddress, size), directBuffer(found.memoryAddress + 8, room))
      FileBatches.onError(found.close())(found.writerIndex(8L + frames.compress(from, 0, size, into, 0, room)))
    }

    override protected def doDecompress(allocator: BufferAllocator, compressed: ArrowBuf): ArrowBuf =
      throw new UnsupportedOperationException("written only")
  }
}
