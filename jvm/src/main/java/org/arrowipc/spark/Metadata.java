package org.arrowipc.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.Callable;
import org.apache.arrow.flatbuf.Decimal;
import org.apache.arrow.flatbuf.Int;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.Type;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;

/**
 * FlatBuffers out of untrusted bytes: Arrow Java's classes read them, within bounds that are looked at first.
 *
 * <p>Every access of theirs is checked by the ByteBuffer, so a lie is an exception; only depth and sharing are not, by
 * which few bytes describe a tree of any size.
 */
final class Metadata {
  /** The least bytes of a field's own: its table and the offset to it. */
  private static final int LEAST_FIELD = 8;
  /** Metadata in which a field of narrow decimals, a type that Arrow Java has not, keeps the width of its values. */
  static final String WIDTH = "arrowipc:decimal_width";

  private Metadata() {}

  /** Whatever exception a FlatBuffer's lie ends in, as one of ours. */
  static <T> T guarded(String what, Callable<T> read) throws IOException {
    try {
      return read.call();
    } catch (ArrowIpcException | Declined | IOException error) {
      throw error;
    } catch (Exception error) {
      throw new ArrowIpcException.Format(what + " is broken: " + error, error);
    }
  }

  static Message message(ByteBuffer bytes) {
    Message message = Message.getRootAsMessage(bytes);
    if (message.bodyLength() < 0 || message.version() < 3 || message.version() > 4) {
      String found = "a body of " + message.bodyLength() + " bytes and metadata version " + message.version();
      throw new ArrowIpcException.Format("expected a message of version V4 or V5, found " + found);
    }
    return message;
  }

  /** A schema of so many bytes in Arrow Java's form, which it grows into only within bounds. */
  static Schema schema(org.apache.arrow.flatbuf.Schema schema, int bytes) {
    if (schema.endianness() != 0) {
      throw new Declined("big-endian data is Python's");
    }
    long[] left = {bytes / LEAST_FIELD, 4L * bytes};
    List<Field> fields = new ArrayList<>();
    for (int i = 0; i < schema.fieldsLength(); i++) {
      fields.add(field(schema.fields(i), 1, left));
    }
    Map<String, String> metadata = new HashMap<>();
    for (int i = 0; i < schema.customMetadataLength(); i++) {
      KeyValue pair = schema.customMetadata(i);
      metadata.put(spend(pair.keyAsByteBuffer(), left), spend(pair.valueAsByteBuffer(), left));
    }
    return new Schema(fields, metadata);
  }

  /** What {@code Field.convertField} does, but for narrow decimals, which it refuses. */
  private static Field field(org.apache.arrow.flatbuf.Field field, int depth, long[] left) {
    if (depth > ReadOptions.DEPTH) {
      throw new ArrowIpcException.Limit("the schema has more than " + ReadOptions.DEPTH + " levels of nested types");
    }
    left[0]--;
    String name = field.nameAsByteBuffer() == null ? "" : spend(field.nameAsByteBuffer(), left);
    Map<String, String> metadata = new HashMap<>();
    for (int i = 0; i < field.customMetadataLength(); i++) {
      KeyValue pair = field.customMetadata(i);
      metadata.put(spend(pair.keyAsByteBuffer(), left), spend(pair.valueAsByteBuffer(), left));
    }
    metadata.remove(WIDTH);
    List<Field> children = new ArrayList<>();
    for (int i = 0; i < field.childrenLength(); i++) {
      children.add(field(field.children(i), depth + 1, left));
    }
    DictionaryEncoding encoding = null;
    if (field.dictionary() != null) {
      Int index = field.dictionary().indexType();
      encoding = new DictionaryEncoding(field.dictionary().id(), field.dictionary().isOrdered(),
          index == null ? null : new ArrowType.Int(index.bitWidth(), index.isSigned()));
    }
    return new Field(name, new FieldType(field.nullable(), type(field, metadata), encoding, metadata), children);
  }

  private static ArrowType type(org.apache.arrow.flatbuf.Field field, Map<String, String> metadata) {
    if (field.typeType() == Type.Decimal) {
      Decimal type = (Decimal) field.type(new Decimal());
      if (type.bitWidth() == 32 || type.bitWidth() == 64) {
        metadata.put(WIDTH, String.valueOf(type.bitWidth() / 8));
        return new ArrowType.Decimal(type.precision(), type.scale(), 128);
      }
    }
    return ArrowType.getTypeForField(field);
  }

  /** Text of a schema, of which shared parts may ask for more than there is. */
  private static String spend(ByteBuffer text, long[] left) {
    left[1] -= text == null ? 0 : text.remaining();
    if (left[0] < 0 || left[1] < 0) {
      throw new ArrowIpcException.Limit("the metadata describes more than its bytes hold: its parts are shared");
    }
    return text == null ? "" : StandardCharsets.UTF_8.decode(text).toString();
  }
}
