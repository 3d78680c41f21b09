package org.arrowipc.spark

import java.io.{ByteArrayOutputStream, OutputStream}
import java.nio.channels.Channels
import java.nio.charset.StandardCharsets.US_ASCII
import com.github.luben.zstd.Zstd
import com.google.flatbuffers.FlatBufferBuilder
import net.jpountz.lz4.LZ4FrameOutputStream
import org.apache.arrow.flatbuf.{KeyValue, Message, MessageHeader, MetadataVersion}
import org.apache.arrow.memory.{ArrowBuf, BufferAllocator, RootAllocator}
import org.apache.arrow.vector.{VectorSchemaRoot, VectorUnloader}
import org.apache.arrow.vector.compression._
import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.{ArrowBlock, ArrowFooter, ArrowRecordBatch, MessageSerializer}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types.StructType

/** Opens a file for each that a task begins. */
private final class ArrowIpcWriterFactory(options: WriteOptions) extends OutputWriterFactory {
  override def getFileExtension(context: TaskAttemptContext): String = if (options.stream) ".arrows" else ".arrow"

  override def newInstance(path: String, schema: StructType, context: TaskAttemptContext): OutputWriter = {
    val target = new Path(path)
    val arrow = SparkSchema.arrow(schema)
    val stream = target.getFileSystem(context.getConfiguration).create(target, false)
    new ArrowIpcWriter(path, schema, options, new IpcOutput(stream, arrow, options))
  }
}

/** Collects the rows of one file into batches of no more than so many rows and, a row more or less, bytes. */
private final class ArrowIpcWriter(override val path: String, schema: StructType, options: WriteOptions, out: IpcOutput)
    extends OutputWriter {
  private val allocator = new RootAllocator
  private val root = VectorSchemaRoot.create(out.schema, allocator)
  private val batch = ArrowWriter.create(root)
  private val rowBytes = schema.defaultSize
  private var rows = 0
  private var bytes = 0L
  private var failed = false

  override def write(row: InternalRow): Unit = guarded {
    batch.write(row)
    rows += 1
    bytes += (row match {
      case unsafe: UnsafeRow => unsafe.getSizeInBytes
      case _ => rowBytes
    })
    if (rows >= options.rows || bytes >= options.bytes) {
      flush()
    }
  }

  private def flush(): Unit = if (rows > 0) {
    batch.finish()
    out.write(root, allocator)
    batch.reset()
    rows = 0
    bytes = 0
  }

  /** What has failed once is not finished: Spark closes the writers of failed tasks too. */
  private def guarded(run: => Unit): Unit = try run catch {
    case error: Throwable =>
      failed = true
      throw error
  }

  override def close(): Unit = try {
    if (!failed) {
      guarded {
        flush()
        out.finish()
      }
    }
  } finally {
    root.close()
    allocator.close()
    out.close()
  }
}

/** The messages of an Arrow file or stream. */
private final class IpcOutput(stream: OutputStream, val schema: Schema, options: WriteOptions) {
  private val out = new WriteChannel(Channels.newChannel(stream))
  private val codec = IpcOutput.codec(options.compression)
  private val statistics = if (options.statistics) Some(new Statistics(schema)) else None
  private val blocks = new java.util.ArrayList[ArrowBlock]
  if (!options.stream) {
    out.write(IpcOutput.MAGIC.padTo(8, 0.toByte))
  }
  MessageSerializer.serialize(out, schema)

  def write(root: VectorSchemaRoot, allocator: BufferAllocator): Unit = {
    val batch = new VectorUnloader(root, true, codec, true).getRecordBatch
    try {
      val start = out.getCurrentPosition
      val message = IpcOutput.message(batch, statistics.map(each => Statistics.KEY -> each.of(root)).toSeq)
      val length = MessageSerializer.writeMessageBuffer(out, message.remaining, message)
      blocks.add(new ArrowBlock(start, length, MessageSerializer.writeBatchBuffers(out, batch)))
    } finally batch.close()
  }

  /** Write what ends a file or stream. */
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

  def close(): Unit = out.close()
}

private object IpcOutput {
  private val MAGIC = "ARROW1".getBytes(US_ASCII)

  /** The header of a batch, with metadata of its own, which Arrow Java's writers do not write. */
  private def message(batch: ArrowRecordBatch, metadata: Seq[(String, String)]): java.nio.ByteBuffer = {
    val builder = new FlatBufferBuilder
    val header = batch.writeTo(builder)
    val pairs = metadata.map { case (key, value) =>
      KeyValue.createKeyValue(builder, builder.createString(key), builder.createString(value))
    }
    val vector = if (pairs.isEmpty) 0 else Message.createCustomMetadataVector(builder, pairs.toArray)
    builder.finish(Message.createMessage(
      builder, MetadataVersion.V5, MessageHeader.RecordBatch, header, batch.computeBodyLength, vector))
    builder.dataBuffer
  }

  private def codec(name: String): CompressionCodec = name match {
    case "lz4" => Lz4Frames
    case "zstd" => ZstdFrames
    case _ => NoCompressionCodec.INSTANCE
  }

  /** Arrow Java's codecs are in a library that Spark 4.0 does not have; the compressors themselves are. */
  private abstract class Frames extends AbstractCompressionCodec {
    override protected def doDecompress(allocator: BufferAllocator, compressed: ArrowBuf): ArrowBuf =
      throw new UnsupportedOperationException("written only")
  }

  private object ZstdFrames extends Frames {
    override def getCodecType: CompressionUtil.CodecType = CompressionUtil.CodecType.ZSTD

    override protected def doCompress(allocator: BufferAllocator, plain: ArrowBuf): ArrowBuf = {
      val most = Zstd.compressBound(plain.writerIndex)
      val found = allocator.buffer(8 + most)
      val size = Zstd.compressUnsafe(
        found.memoryAddress + 8, most, plain.memoryAddress, plain.writerIndex, Zstd.defaultCompressionLevel)
      if (Zstd.isError(size)) {
        found.close()
        throw new IllegalStateException(s"ZSTD: ${Zstd.getErrorName(size)}")
      }
      found.writerIndex(8 + size)
      found
    }
  }

  private object Lz4Frames extends Frames {
    private val PIECE = 1L << 16

    override def getCodecType: CompressionUtil.CodecType = CompressionUtil.CodecType.LZ4_FRAME

    override protected def doCompress(allocator: BufferAllocator, plain: ArrowBuf): ArrowBuf = {
      val frame = new ByteArrayOutputStream
      val sink = new LZ4FrameOutputStream(frame, LZ4FrameOutputStream.BLOCKSIZE.SIZE_256KB)
      for (at <- 0L until plain.writerIndex by PIECE) {
        plain.getBytes(at, sink, math.min(PIECE, plain.writerIndex - at).toInt)
      }
      sink.close()
      val found = allocator.buffer(8L + frame.size)
      found.setBytes(8, frame.toByteArray)
      found.writerIndex(8L + frame.size)
      found
    }
  }
}
