package org.arrowipc.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.arrow.flatbuf.DictionaryBatch;
import org.apache.arrow.flatbuf.Footer;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.vector.types.pojo.Schema;
import org.arrowipc.spark.ArrowIpcException.Format;
import org.arrowipc.spark.ArrowIpcException.Limit;

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
      Format.unless(magic || !options.format.equals("file"), "not an Arrow file: it does not begin with ARROW1");
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

  public Schema schema() { return schema; }

  public List<Block> batches() { return batches; }

  /** Rows of a batch, which only its header tells. */
  public long rows(int batch) throws IOException {
    if (rows[batch] < 0) {
      rows[batch] = Metadata.guarded("batch " + batch, () -> length(batch(header(batches.get(batch)))));
    }
    return rows[batch];
  }

  @Override public void close() throws IOException { source.close(); }

  Source source() { return source; }

  // -- files ---------------------------------------------------------------------------------------------------

  private void readFooter() throws IOException {
    Format.unless(source.size() >= 2 * TAIL, "the file is cut short: it has %d bytes", source.size());
    ByteBuffer tail = source.read(source.size() - TAIL, TAIL).order(ByteOrder.LITTLE_ENDIAN);
    byte[] magic = new byte[MAGIC.length];
    tail.get(4, magic);
    int length = tail.getInt(0);
    Format.unless(Arrays.equals(magic, MAGIC), "the file has no footer: it does not end with ARROW1");
    long room = source.size() - TAIL - 8;
    Format.unless(0 < length && length <= room, "a footer of %d bytes does not fit a file of %d", length, source.size());
    long most = ReadOptions.METADATA_BYTES + 24L * (room / 16);
    Limit.unless(length <= most, "a footer of %d bytes: more than %d", length, most);
    ByteBuffer bytes = source.read(source.size() - TAIL - length, length);
    Footer footer = Footer.getRootAsFooter(bytes);
    Format.unless(footer.schema() != null, "the footer has no schema");
    schema = Metadata.schema(footer.schema(), length);
    long limit = source.size() - TAIL - length;
    for (int i = 0; i < footer.recordBatchesLength(); i++) {
      batches.add(block(i, footer.recordBatches(i), limit));
    }
    unread = new ArrayList<>();
    long total = 0;
    for (int i = 0; i < footer.dictionariesLength(); i++) {
      unread.add(block(i, footer.dictionaries(i), limit));
      total += unread.get(i).metadataLength + unread.get(i).bodyLength;
      Limit.unless(total <= source.size() + ReadOptions.OVERLAP_BYTES, "the dictionaries are more than the file");
    }
    rows = new long[batches.size()];
    Arrays.fill(rows, -1);
  }

  private static Block block(int number, org.apache.arrow.flatbuf.Block block, long limit) {
    long offset = block.offset();
    int head = block.metaDataLength();
    long body = block.bodyLength();
    Format.unless(
        offset >= 8 && head >= 8 && body >= 0 && offset <= limit && head <= limit - offset
            && body <= limit - offset - head,
        "block %d at %d + %d + %d is not inside the file's %d", number, offset, head, body, limit);
    return new Block(number, offset, head, body);
  }

  /** The dictionary messages; those of a file are looked at when the first is needed. */
  List<DictionaryBlock> dictionaries() throws IOException {
    if (!unread.isEmpty()) {
      List<DictionaryBlock> found = new ArrayList<>();
      Set<Long> seen = new HashSet<>();
      for (Block block : unread) {
        DictionaryBlock each = dictionary(block, header(block), 0);
        Format.unless(seen.add(each.id) || each.delta,
            "dictionary %d is listed twice without being a delta; a file cannot replace dictionaries", each.id);
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
      Format.unless(head.remaining() >= 4, "the stream is cut short at byte %d", at);
      int prefix = head.getInt(0) == -1 ? 8 : 4;
      Format.unless(head.remaining() >= prefix, "the stream is cut short at byte %d", at);
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
      Format.unless(message.bodyLength() <= room, "the stream is cut short: a message at byte %d has a body of %d bytes,"
          + " and %d are left", at, message.bodyLength(), room);
      Block block = new Block(batches.size(), at, prefix + length, message.bodyLength());
      take(message, block, counted);
      at += block.metadataLength + block.bodyLength;
    }
    Format.unless(schema != null, "not an Arrow stream: it ends before its schema");
    rows = counted.stream().mapToLong(Long::longValue).toArray();
  }

  private void checkMetadata(int length, long at, int prefix) {
    Format.unless(0 <= length && length <= source.size() - at - prefix,
        "not an Arrow stream, or cut short: %d bytes of metadata at byte %d of %d", length, at, source.size());
    Limit.unless(length <= ReadOptions.METADATA_BYTES, "%d bytes of metadata at byte %d", length, at);
  }

  private void take(Message message, Block block, List<Long> counted) {
    byte kind = message.headerType();
    Format.unless((schema == null) == (kind == MessageHeader.Schema),
        "expected one Schema message, at the start of the stream; found a message of kind %d", kind);
    if (kind == MessageHeader.Schema) {
      schema = Metadata.schema(
          (org.apache.arrow.flatbuf.Schema) message.header(new org.apache.arrow.flatbuf.Schema()),
          block.metadataLength);
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
    Limit.unless(block.metadataLength <= ReadOptions.METADATA_BYTES + 8, "%d bytes of metadata", block.metadataLength);
    ByteBuffer bytes = source.read(block.offset, block.metadataLength).order(ByteOrder.LITTLE_ENDIAN);
    int prefix = bytes.getInt(0) == -1 ? 8 : 4;
    int length = bytes.getInt(prefix - 4);
    Format.unless(0 < length && length <= block.metadataLength - prefix,
        "a message at byte %d states %d bytes of metadata, not %d", block.offset, length, block.metadataLength);
    Message message = Metadata.message(bytes.slice(prefix, length));
    Format.unless(message.bodyLength() <= block.bodyLength, "a message at byte %d states a body of %d bytes, and its "
        + "block %d", block.offset, message.bodyLength(), block.bodyLength);
    return message;
  }

  static RecordBatch batch(Message message) {
    byte kind = message.headerType();
    Format.unless(kind == MessageHeader.RecordBatch, "expected a RecordBatch message, found kind %d", kind);
    return (RecordBatch) message.header(new RecordBatch());
  }

  static DictionaryBatch dictionaryBatch(Message message) {
    byte kind = message.headerType();
    Format.unless(kind == MessageHeader.DictionaryBatch, "expected a DictionaryBatch message, found kind %d", kind);
    return (DictionaryBatch) message.header(new DictionaryBatch());
  }

  private static DictionaryBlock dictionary(Block block, Message message, int before) {
    DictionaryBatch found = dictionaryBatch(message);
    return new DictionaryBlock(block, found.id(), found.isDelta(), before);
  }

  /** The rows that a header states, within the limit. */
  static long length(RecordBatch batch) {
    long length = batch.length();
    Format.unless(length >= 0, "a batch states %d rows", length);
    Limit.unless(length <= ReadOptions.ROWS_PER_BATCH, "a batch states %d rows", length);
    return length;
  }
}
