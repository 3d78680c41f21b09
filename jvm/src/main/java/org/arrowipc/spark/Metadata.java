package org.arrowipc.spark;

import java.nio.ByteBuffer;
import java.util.concurrent.Callable;
import org.apache.arrow.flatbuf.Field;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.Message;
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

  private Metadata() {}

  /** Whatever exception a FlatBuffer's lie ends in, as one of ours. */
  static <T> T guarded(String what, Callable<T> read) {
    try {
      return read.call();
    } catch (ArrowIpcException | Declined error) {
      throw error;
    } catch (Exception error) {
      throw new ArrowIpcException.Format(what + " is broken: " + error, error);
    }
  }

  static Message message(ByteBuffer bytes) {
    return guarded("a message", () -> {
      Message message = Message.getRootAsMessage(bytes);
      if (message.bodyLength() < 0 || message.version() < 3 || message.version() > 4) {
        String found = "a body of " + message.bodyLength() + " bytes and metadata version " + message.version();
        throw new ArrowIpcException.Format("expected a message of version V4 or V5, found " + found);
      }
      return message;
    });
  }

  /** Arrow Java's Schema, once its size and depth are known to be bounded. */
  static Schema schema(org.apache.arrow.flatbuf.Schema schema, int metadataBytes) {
    return guarded("the schema", () -> {
      long[] left = {metadataBytes / LEAST_FIELD, 4L * metadataBytes};
      for (int i = 0; i < schema.fieldsLength(); i++) {
        walk(schema.fields(i), 1, left);
      }
      for (int i = 0; i < schema.customMetadataLength(); i++) {
        spend(schema.customMetadata(i), left);
      }
      if (schema.endianness() != 0) {
        throw new Declined("big-endian data is Python's");
      }
      return Schema.convertSchema(schema);
    });
  }

  private static void walk(Field field, int depth, long[] left) {
    if (depth > ReadOptions.DEPTH) {
      throw new ArrowIpcException.Limit("the schema has more than " + ReadOptions.DEPTH + " levels of nested types");
    }
    ByteBuffer name = field.nameAsByteBuffer();
    left[1] -= name == null ? 0 : name.remaining();
    if (--left[0] < 0 || left[1] < 0) {
      throw new ArrowIpcException.Limit("the schema describes more than its bytes hold: its parts are shared");
    }
    for (int i = 0; i < field.customMetadataLength(); i++) {
      spend(field.customMetadata(i), left);
    }
    for (int i = 0; i < field.childrenLength(); i++) {
      walk(field.children(i), depth + 1, left);
    }
  }

  private static void spend(KeyValue pair, long[] left) {
    for (ByteBuffer part : new ByteBuffer[] {pair.keyAsByteBuffer(), pair.valueAsByteBuffer()}) {
      left[1] -= part == null ? 0 : part.remaining();
    }
    if (left[1] < 0) {
      throw new ArrowIpcException.Limit("the schema's metadata is more than its bytes hold: its parts are shared");
    }
  }
}
