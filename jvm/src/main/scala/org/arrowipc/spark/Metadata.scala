package org.arrowipc.spark

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.StandardCharsets.UTF_8
import java.util
import java.util.concurrent.Callable
import org.apache.arrow.flatbuf
import org.apache.arrow.vector.types.pojo.{ArrowType, DictionaryEncoding, Field, FieldType, Schema}
import org.arrowipc.spark.ArrowIpcException.Format

/** FlatBuffers out of untrusted bytes: Arrow Java's classes read them, once they are proven. */
private[spark] object Metadata {
  /** The least bytes of a field's own: its table and the offset to it. */
  private final val LeastField = 8
  /** Metadata in which a field of narrow decimals, a type that Arrow Java has not, keeps the width of its values. */
  final val WIDTH = "arrowipc:decimal_width"

  /** Whatever exception a FlatBuffer's lie ends in, as one of ours. */
  def guarded[T](what: String, read: Callable[T]): T =
    try read.call() catch {
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
    if (message.bodyLength < 0 || message.version < 3 || message.version > 4) {
      val found = s"a body of ${message.bodyLength} bytes and metadata version ${message.version}"
      throw new ArrowIpcException.Format(s"expected a message of version V4 or V5, found $found")
    }
    message
  }

  /** A schema of so many bytes in Arrow Java's form, which it grows into only within bounds: parts may be shared. */
  def schema(schema: flatbuf.Schema, bytes: Int): Schema = {
    if (schema.endianness != 0) throw new ArrowIpcException.Unsupported(
      "the data is big-endian; read it with arrowipc in Python, and write it again")
    val budget = new Budget(bytes)
    val fields = new util.ArrayList[Field]
    for (i <- 0 until schema.fieldsLength) fields.add(field(schema.fields(i), 1, budget))
    new Schema(fields, pairs(schema.customMetadataLength, schema.customMetadata(_), budget))
  }

  /** What `Field.convertField` does, but for narrow decimals, which it refuses. */
  private def field(field: flatbuf.Field, depth: Int, budget: Budget): Field = {
    if (depth > ReadOptions.DEPTH) {
      throw new ArrowIpcException.Limit(s"the schema has more than ${ReadOptions.DEPTH} levels of nested types")
    }
    budget.fields -= 1
    val name = budget.text(field.nameAsByteBuffer)
    Format.unless(!name.contains('\uFFFD') || isUtf8(field.nameAsByteBuffer), "the name '%s' is not UTF-8", name)
    val metadata = pairs(field.customMetadataLength, field.customMetadata(_), budget)
    metadata.remove(WIDTH)
    val children = new util.ArrayList[Field]
    for (i <- 0 until field.childrenLength) children.add(this.field(field.children(i), depth + 1, budget))
    val encoding = Option(field.dictionary).map { dictionary =>
      val kind = dictionary.dictionaryKind
      Format.unless(kind == 0, "field '%s' has a dictionary of the unknown kind %d", name, kind)
      val index = Option(dictionary.indexType).map(int => new ArrowType.Int(int.bitWidth, int.isSigned))
      new DictionaryEncoding(dictionary.id, dictionary.isOrdered, index.orNull)
    }
    new Field(name, new FieldType(field.nullable, typeOf(field, metadata), encoding.orNull, metadata), children)
  }

  private def typeOf(field: flatbuf.Field, metadata: util.Map[String, String]): ArrowType = {
    val decimal = if (field.typeType == flatbuf.Type.Decimal) field.`type`(new flatbuf.Decimal) else null
    decimal match {
      case narrow: flatbuf.Decimal if narrow.bitWidth == 32 || narrow.bitWidth == 64 =>
        metadata.put(WIDTH, (narrow.bitWidth / 8).toString)
        new ArrowType.Decimal(narrow.precision, narrow.scale, 128)
      case _ => ArrowType.getTypeForField(field)
    }
  }

  private def isUtf8(name: ByteBuffer): Boolean =
    try UTF_8.newDecoder.decode(name) != null catch { case _: CharacterCodingException => false }

  private def pairs(count: Int, pair: Int => flatbuf.KeyValue, budget: Budget): util.Map[String, String] = {
    val found = new util.HashMap[String, String]
    for (i <- 0 until count) {
      found.put(budget.text(pair(i).keyAsByteBuffer), budget.text(pair(i).valueAsByteBuffer))
    }
    found
  }

  /** What a schema of some bytes may still describe: shared parts may ask for more than there is. */
  private final class Budget(bytes: Int) {
    var fields: Long = bytes / LeastField
    private[this] var letters = 4L * bytes

    def text(bytes: ByteBuffer): String = {
      letters -= (if (bytes == null) 0 else bytes.remaining)
      if (fields < 0 || letters < 0) {
        throw new ArrowIpcException.Limit("the metadata describes more than its bytes hold: its parts are shared")
      }
      if (bytes == null) "" else UTF_8.decode(bytes).toString
    }
  }
}
