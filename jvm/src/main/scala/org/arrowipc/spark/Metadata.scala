package org.arrowipc.spark

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.StandardCharsets.UTF_8
import java.util
import org.apache.arrow.flatbuf
import org.apache.arrow.vector.types.pojo.{ArrowType, DictionaryEncoding, Field, FieldType, Schema}
import org.arrowipc.spark.ArrowIpcException.Format
import scala.jdk.CollectionConverters._

/** Reads FlatBuffers from untrusted bytes: Arrow Java's classes read them after the [[Verifier]]'s check. */
private[spark] object Metadata {
  /** Key in a field's metadata for the width of decimals that are narrower than those of Arrow Java, in bytes. */
  final val WIDTH = "arrowipc:decimal_width"

  /** Run a function; turn any exception that an invalid FlatBuffer may cause into a Format error. */
  def guarded[T](what: String)(read: => T): T =
    try read catch {
      case error @ (_: ArrowIpcException | _: IOException) => throw error
      case error: Exception => throw new ArrowIpcException.Format(s"$what is broken: $error", error)
    }

  def footer(bytes: ByteBuffer): flatbuf.Footer = {
    Verifier.footer(bytes)
    flatbuf.Footer.getRootAsFooter(bytes)
  }

  def message(bytes: ByteBuffer): flatbuf.Message = {
    Verifier.message(bytes)
    val message = flatbuf.Message.getRootAsMessage(bytes)
    if (message.bodyLength < 0 || message.version < 3 || message.version > 4) throw new Format(
      s"expected a message of version V4 or V5, found a body of ${message.bodyLength} bytes and metadata version " +
        message.version)
    message
  }

  /** Convert a schema to Arrow Java's class. */
  def schema(schema: flatbuf.Schema): Schema = {
    if (schema.endianness != 0) throw new ArrowIpcException.Unsupported(
      "the data is big-endian; read it with arrowipc in Python, and write it again")
    val fields = (0 until schema.fieldsLength).map(i => field(schema.fields(i)))
    new Schema(fields.asJava, asMap(schema.customMetadataLength, schema.customMetadata(_)))
  }

  /** Convert a field as `Field.convertField` does, and also narrow decimals, which it refuses. */
  private def field(field: flatbuf.Field): Field = {
    val name = text(field.nameAsByteBuffer)
    Format.unless(!name.contains('\uFFFD') || isUtf8(field.nameAsByteBuffer), "the name '%s' is not UTF-8", name)
    val metadata = asMap(field.customMetadataLength, field.customMetadata(_))
    metadata.remove(WIDTH)
    val children = (0 until field.childrenLength).map(i => this.field(field.children(i)))
    val encoding = Option(field.dictionary).map { dictionary =>
      val kind = dictionary.dictionaryKind
      Format.unless(kind == 0, "field '%s' has a dictionary of the unknown kind %d", name, kind)
      val index = Option(dictionary.indexType).map(int => new ArrowType.Int(int.bitWidth, int.isSigned))
      new DictionaryEncoding(dictionary.id, dictionary.isOrdered, index.orNull)
    }
    new Field(name, new FieldType(field.nullable, typeOf(field, metadata), encoding.orNull, metadata), children.asJava)
  }

  /** Whether decimals of `bits` bits can have `digits` digits. */
  def fits(digits: Int, bits: Int): Boolean = Map(32 -> 9, 64 -> 18, 128 -> 38, 256 -> 76).get(bits).exists(digits <= _)

  private def typeOf(field: flatbuf.Field, metadata: util.Map[String, String]): ArrowType = {
    lazy val decimal = field.`type`(new flatbuf.Decimal).asInstanceOf[flatbuf.Decimal]
    if (field.typeType == flatbuf.Type.Decimal && decimal.bitWidth < 128 && fits(decimal.precision, decimal.bitWidth)) {
      metadata.put(WIDTH, (decimal.bitWidth / 8).toString)
      new ArrowType.Decimal(decimal.precision, decimal.scale, 128)
    } else ArrowType.getTypeForField(field)
  }

  /** The custom metadata of a message. */
  def pairs(message: flatbuf.Message): Iterator[flatbuf.KeyValue] =
    Iterator.range(0, message.customMetadataLength).map(message.customMetadata(_))

  private def isUtf8(name: ByteBuffer): Boolean =
    try UTF_8.newDecoder.decode(name) != null catch { case _: CharacterCodingException => false }

  private def asMap(count: Int, pair: Int => flatbuf.KeyValue): util.Map[String, String] = {
    val found = new util.HashMap[String, String]
    for (i <- 0 until count) found.put(text(pair(i).keyAsByteBuffer), text(pair(i).valueAsByteBuffer))
    found
  }

  private def text(bytes: ByteBuffer): String = if (bytes == null) "" else UTF_8.decode(bytes).toString
}
