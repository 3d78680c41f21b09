package org.arrowipc.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.flatbuf.DictionaryBatch;
import org.apache.arrow.flatbuf.Footer;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.StructType;

/** An Arrow file, by its footer, or a stream, by a walk over its headers: where each message lies. */
public final class IpcFile implements AutoCloseable {
  private static final byte[] MAGIC = "ARROW1".getBytes(StandardCharsets.US_ASCII);
  private static final int TAIL = 10;
  private static final int HEAD = 4096;

  /** Where a message lies: {@code metadataLength} includes the prefix; the body follows. */
  public record Block(int number, long offset, int metadataLength, long bodyLength) {}

  /** A dictionary message, which counts for the batches from number {@code before} on. */
  record DictionaryBlock(Block block, long id, boolean delta, int before) {}

  private final Source source;
  private final List<Block> batches = new ArrayList<>();
  private final Map<String, String> metadata = new LinkedHashMap<>();
  private List<DictionaryBlock> dictionaries = new ArrayList<>();
  private List<Block> unread = List.of();
  private long[] rows;
  private Schema schema;
  final boolean stream;

  private IpcFile(Source source, boolean stream) {
    this.source = source;
    this.stream = stream;
  }

  /** Read the footer of a file, or the headers of a stream; the source is this file's from then on. */
  public static IpcFile open(Source source, ReadOptions options) throws IOException {
    return Metadata.guarded("the file", () -> {
      byte[] start = new byte[(int) Math.min(MAGIC.length, source.size())];
      source.read(0, start.length).get(start);
      boolean magic = Arrays.equals(start, MAGIC);
      if (!magic && options.format.equals("file")) {
        throw new ArrowIpcException.Format("not an Arrow file: it does not begin with ARROW1");
      }
      IpcFile file = new IpcFile(source, !magic || options.format.equals("stream"));
      if (file.stream) {
        file.walk();
      } else {
        file.readFooter();
      }
      Plan.of(file.schema.getFields()); // refuses what is no schema
      return file;
    });
  }

  public Schema schema() {
    return schema;
  }

  public List<Block> batches() {
    return batches;
  }

  /** What the writer put into the footer beside the schema; streams have none. */
  public Map<String, String> metadata() {
    return metadata;
  }

  /** Rows of a batch, which only its header tells. */
  public long rows(int batch) throws IOException {
    if (rows[batch] < 0) {
      rows[batch] = Metadata.guarded("batch " + batch, () -> length(batch(header(batches.get(batch)))));
    }
    return rows[batch];
  }

  /** What the footer says of some columns in each batch, which nothing proves; null where it says nothing. */
  public Statistics statistics(StructType schema, ReadOptions options) {
    return Statistics.of(this, schema, options);
  }

  @Override
  public void close() throws IOException {
    source.close();
  }

  Source source() {
    return source;
  }

  // -- files ---------------------------------------------------------------------------------------------------

  private void readFooter() throws IOException {
    if (source.size() < 2 * TAIL) {
      throw new ArrowIpcException.Format("the file is cut short: it has " + source.size() + " bytes");
    }
    ByteBuffer tail = source.read(source.size() - TAIL, TAIL).order(ByteOrder.LITTLE_ENDIAN);
    byte[] magic = new byte[MAGIC.length];
    tail.get(4, magic);
    int length = tail.getInt(0);
    if (!Arrays.equals(magic, MAGIC)) {
      throw new ArrowIpcException.Format("the file has no footer: it does not end with ARROW1");
    }
    long room = source.size() - TAIL - 8;
    if (length <= 0 || length > room) {
      throw new ArrowIpcException.Format("a footer of " + length + " bytes does not fit a file of " + source.size());
    }
    long most = ReadOptions.METADATA_BYTES + 24L * (room / 16);
    if (length > most) {
      throw new ArrowIpcException.Limit("a footer of " + length + " bytes: more than " + most);
    }
    ByteBuffer bytes = source.read(source.size() - TAIL - length, length);
    Footer footer = Footer.getRootAsFooter(bytes);
    if (footer.schema() == null) {
      throw new ArrowIpcException.Format("the footer has no schema");
    }
    schema = Metadata.schema(footer.schema(), length);
    long[] left = {0, length};
    for (int i = 0; i < footer.customMetadataLength(); i++) {
      KeyValue pair = footer.customMetadata(i);
      String value = Metadata.spend(pair.valueAsByteBuffer(), left);
      // Twice the same key: neither is believed.
      metadata.merge(Metadata.spend(pair.keyAsByteBuffer(), left), value, (one, other) -> "");
    }
    long limit = source.size() - TAIL - length;
    for (int i = 0; i < footer.recordBatchesLength(); i++) {
      batches.add(block(i, footer.recordBatches(i), limit));
    }
    unread = new ArrayList<>();
    long total = 0;
    for (int i = 0; i < footer.dictionariesLength(); i++) {
      unread.add(block(i, footer.dictionaries(i), limit));
      total += unread.get(i).metadataLength + unread.get(i).bodyLength;
      if (total > source.size() + ReadOptions.OVERLAP_BYTES) {
        throw new ArrowIpcException.Limit("the footer lists dictionaries of more bytes than the file has");
      }
    }
    rows = new long[batches.size()];
    Arrays.fill(rows, -1);
  }

  private static Block block(int number, org.apache.arrow.flatbuf.Block block, long limit) {
    long offset = block.offset();
    int head = block.metaDataLength();
    long body = block.bodyLength();
    if (offset < 8 || head < 8 || body < 0 || offset > limit || head > limit - offset || body > limit - offset - head) {
      String found = offset + " + " + head + " + " + body;
      throw new ArrowIpcException.Format("block " + number + " at " + found + " is not inside the file's " + limit);
    }
    return new Block(number, offset, head, body);
  }

  /** The dictionary messages; those of a file are looked at when the first is needed. */
  List<DictionaryBlock> dictionaries() throws IOException {
    if (!unread.isEmpty()) {
      List<DictionaryBlock> found = new ArrayList<>();
      Set<Long> seen = new HashSet<>();
      for (Block block : unread) {
        DictionaryBlock each = dictionary(block, header(block), 0);
        if (!seen.add(each.id) && !each.delta) {
          throw new ArrowIpcException.Format(
              "dictionary " + each.id + " is listed twice without being a delta; a file cannot replace dictionaries");
        }
        found.add(each);
      }
      dictionaries = found;
      unread = List.of();
    }
    return dictionaries;
  }

  // -- streams -------------------------------------------------------------------------------------------------

  private void walk() throws IOException {
    long at = 0;
    List<Long> counted = new ArrayList<>();
    while (at < source.size()) {
      ByteBuffer head = source.read(at, (int) Math.min(HEAD, source.size() - at)).order(ByteOrder.LITTLE_ENDIAN);
      if (head.remaining() < 4) {
        throw new ArrowIpcException.Format("the stream is cut short at byte " + at);
      }
      boolean marked = head.getInt(0) == -1;
      int prefix = marked ? 8 : 4;
      if (head.remaining() < prefix) {
        throw new ArrowIpcException.Format("the stream is cut short at byte " + at);
      }
      int length = head.getInt(prefix - 4);
      if (length == 0) {
        break;
      }
      checkMetadata(length, at, prefix);
      if (length > head.remaining() - prefix) {
        head = source.read(at, prefix + length);
      }
      Message message = Metadata.message(head.slice(prefix, length));
      long room = source.size() - at - prefix - length;
      if (message.bodyLength() > room) {
        String body = message.bodyLength() + " bytes at byte " + at + ", and " + room + " are left";
        throw new ArrowIpcException.Format("the stream is cut short: a message has a body of " + body);
      }
      Block block = new Block(batches.size(), at, prefix + length, message.bodyLength());
      take(message, block, counted);
      at += block.metadataLength + block.bodyLength;
    }
    if (schema == null) {
      throw new ArrowIpcException.Format("not an Arrow stream: it ends before its schema");
    }
    rows = counted.stream().mapToLong(Long::longValue).toArray();
  }

  private void checkMetadata(int length, long at, int prefix) {
    if (length < 0 || length > source.size() - at - prefix) {
      String found = length + " bytes of metadata at byte " + at + " of " + source.size();
      throw new ArrowIpcException.Format("not an Arrow stream, or cut short: " + found);
    }
    if (length > ReadOptions.METADATA_BYTES) {
      throw new ArrowIpcException.Limit(
          length + " bytes of metadata at byte " + at + ": more than the limit " + ReadOptions.METADATA_BYTES);
    }
  }

  private void take(Message message, Block block, List<Long> counted) {
    byte kind = message.headerType();
    if ((schema == null) != (kind == MessageHeader.Schema)) {
      throw new ArrowIpcException.Format(schema == null
          ? "a stream begins with a Schema message, found kind " + kind
          : "a second Schema message in a stream");
    }
    if (kind == MessageHeader.Schema) {
      schema = Metadata.schema(
          (org.apache.arrow.flatbuf.Schema) message.header(new org.apache.arrow.flatbuf.Schema()), block.metadataLength);
    } else if (kind == MessageHeader.DictionaryBatch) {
      dictionaries.add(dictionary(block, message, batches.size()));
    } else {
      counted.add(length(batch(message)));
      batches.add(block);
    }
  }

  // -- messages ------------------------------------------------------------------------------------------------

  /** The header of a message whose place is known, which must say the same of its body. */
  Message header(Block block) throws IOException {
    if (block.metadataLength > ReadOptions.METADATA_BYTES + 8) {
      throw new ArrowIpcException.Limit("a message has " + block.metadataLength + " bytes of metadata");
    }
    ByteBuffer bytes = source.read(block.offset, block.metadataLength).order(ByteOrder.LITTLE_ENDIAN);
    int prefix = bytes.getInt(0) == -1 ? 8 : 4;
    int length = bytes.getInt(prefix - 4);
    if (length <= 0 || length > block.metadataLength - prefix) {
      throw new ArrowIpcException.Format(
          "a message at byte " + block.offset + " states " + length + " bytes of metadata, not " + block.metadataLength);
    }
    Message message = Metadata.message(bytes.slice(prefix, length));
    if (message.bodyLength() > block.bodyLength) {
      throw new ArrowIpcException.Format(
          "a message at byte " + block.offset + " states a body of " + message.bodyLength() + " bytes, and its block "
              + block.bodyLength);
    }
    return message;
  }

  static RecordBatch batch(Message message) {
    if (message.headerType() != MessageHeader.RecordBatch) {
      throw new ArrowIpcException.Format("expected a RecordBatch message, found kind " + message.headerType());
    }
    return (RecordBatch) message.header(new RecordBatch());
  }

  static DictionaryBatch dictionaryBatch(Message message) {
    if (message.headerType() != MessageHeader.DictionaryBatch) {
      throw new ArrowIpcException.Format("expected a DictionaryBatch message, found kind " + message.headerType());
    }
    return (DictionaryBatch) message.header(new DictionaryBatch());
  }

  private static DictionaryBlock dictionary(Block block, Message message, int before) {
    DictionaryBatch found = dictionaryBatch(message);
    return new DictionaryBlock(block, found.id(), found.isDelta(), before);
  }

  /** The rows that a header states, within the limit. */
  static long length(RecordBatch batch) {
    long length = batch.length();
    if (length < 0) {
      throw new ArrowIpcException.Format("a batch states " + length + " rows");
    }
    if (length > ReadOptions.ROWS_PER_BATCH) {
      throw new ArrowIpcException.Limit("a batch states " + length + " rows: more than " + ReadOptions.ROWS_PER_BATCH);
    }
    return length;
  }
}
