package org.arrowipc.spark;

import java.io.IOException;
import java.util.*;
import org.apache.arrow.flatbuf.FieldNode;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.OutOfMemoryException;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/**
 * Reads the chosen columns of batches of one file: ranges of the body, decompressed, proven, and as Spark's vectors.
 *
 * <p>All memory is the reader's: a batch is valid until the next one is read.
 */
public final class BatchReader implements AutoCloseable {
  private static final class Format {
    static void unless(boolean good, String words, Object... parts) {
      if (!good) {
        throw new ArrowIpcException.Format(String.format(words, parts));
      }
    }
  }

  private static final class Limit {
    static void unless(boolean good, String words, Object... parts) {
      if (!good) {
        throw new ArrowIpcException.Limit(String.format(words, parts));
      }
    }
  }

  /** Ranges that lie closer together are read as one: seeking costs more than reading that much. */
  private static final long GAP = 1 << 16;
  private static final String EXPERIMENTAL = "ARROW:experimental_compression";

  /** A buffer that a column asks for: where its address goes, and where it lies in the body. */
  private record Wanted(Column column, int number, boolean data, long offset, long size) {
    void put(long address, long length) {
      (data ? column.dataAddress() : column.address())[number] = length == 0 ? 0 : address;
      (data ? column.dataSize() : column.size())[number] = length;
    }

    /** Bytes that the column's length asks for; -1: values decide. */
    long known() {
      return data ? -1 : switch (column.plan().layout) {
        case FIXED, VIEW -> number == 0 ? column.length() / 8 : column.length() * Math.max(1, column.plan().width);
        case BITS -> column.length() / 8;
        default -> -1;
      };
    }
  }

  private final IpcFile file;
  private final ReadOptions options;
  private final BufferAllocator allocator;
  private final Plan.Whole whole;
  private final StructType wanted;
  private final List<Plan> chosen = new ArrayList<>();
  private final Converters.Converter[] converters;
  private final int[] places;
  private final ArrowBuf[] slabs = new ArrowBuf[2];
  private final Map<Long, Known> dictionaries = new HashMap<>();
  private long dictionaryBytes;

  /** A dictionary as of some message, and the memory of its parts. */
  private record Known(
      int last, List<IpcFile.DictionaryBlock> blocks, Column.Dictionary values, List<ArrowBuf> memory) {}

  public BatchReader(IpcFile file, StructType wanted, ReadOptions options, BufferAllocator allocator) {
    this.file = file;
    this.wanted = wanted;
    this.options = options;
    this.allocator = allocator;
    whole = Plan.of(file.schema().getFields());
    List<String> names = whole.columns.stream().map(plan -> plan.path).toList();
    StructField[] fields = wanted.fields();
    converters = new Converters.Converter[fields.length];
    places = new int[fields.length];
    Converters planner = new Converters(options);
    Converters.ByName columns = new Converters.ByName(whole.columns, names, "the file");
    Map<Plan, Integer> known = new HashMap<>();
    for (int i = 0; i < fields.length; i++) {
      Plan plan = columns.find(fields[i].name(), !fields[i].nullable());
      places[i] = -1;
      if (plan != null) {
        converters[i] = planner.plan(plan, fields[i].dataType(), fields[i].name());
        places[i] = known.computeIfAbsent(plan, key -> chosen.size());
        if (places[i] == chosen.size()) {
          chosen.add(plan);
        }
      }
    }
  }

  /** The chosen columns of a batch; valid until the next call. */
  public ColumnarBatch read(int batch) throws IOException {
    if (chosen.isEmpty()) {
      long rows = file.rows(batch);
      return batch(new Column[0], (int) rows);
    }
    return Metadata.guarded("batch " + batch, () -> {
      resolve(chosen, batch);
      IpcFile.Block block = file.batches().get(batch);
      Message message = file.header(block);
      RecordBatch header = IpcFile$.MODULE$.batch(message);
      int rows = (int) IpcFile$.MODULE$.length(header);
      Column[] columns = load(whole, chosen, header, message, block, slabs);
      for (Column column : columns) {
        if (column.length() != rows) {
          throw column.fault("it has " + column.length() + " rows, and the batch " + rows);
        }
      }
      return batch(columns, rows);
    });
  }

  private ColumnarBatch batch(Column[] columns, int rows) {
    StructField[] fields = wanted.fields();
    ColumnVector[] vectors = new ColumnVector[fields.length];
    for (int i = 0; i < vectors.length; i++) {
      Vector vector = places[i] < 0 ? new Vectors.Nulls(fields[i].dataType(), rows)
          : converters[i].of(columns[places[i]]);
      vector.check(0, rows);
      if (!fields[i].nullable()) {
        Vectors.refuseNulls(vector, 0, rows, fields[i].name());
      }
      vectors[i] = vector;
    }
    return new ColumnarBatch(vectors, rows);
  }

  /** Bytes of the chosen columns in a batch, as they are stored. */
  public long bytes(int batch) throws IOException {
    return Metadata.guarded("batch " + batch, () -> {
      IpcFile.Block block = file.batches().get(batch);
      Message message = file.header(block);
      List<Wanted> buffers = new ArrayList<>();
      walk(whole, chosen, IpcFile$.MODULE$.batch(message), message, block.bodyLength(), buffers);
      return buffers.stream().mapToLong(Wanted::size).sum();
    });
  }

  @Override
  public void close() {
    for (int i = 0; i < slabs.length; i++) {
      release(slabs[i]);
      slabs[i] = null;
    }
    dictionaries.values().forEach(known -> release(known.memory));
    dictionaries.clear();
  }

  private static void release(ArrowBuf memory) {
    if (memory != null) {
      memory.close();
    }
  }

  // -- one message ---------------------------------------------------------------------------------------------

  /** The wanted columns of a message, all their sizes and contents proven. */
  private Column[] load(Plan.Whole plan, List<Plan> roots, RecordBatch header, Message message, IpcFile.Block block,
      ArrowBuf[] memory) throws IOException {
    List<Wanted> buffers = new ArrayList<>();
    Column[] columns = walk(plan, roots, header, message, block.bodyLength(), buffers);
    fetch(buffers, block, memory);
    int codec = codec(header, message);
    if (codec >= 0) {
      decompress(buffers, codec, memory);
    }
    for (Column column : columns) {
      column.checkSizes();
      attach(column);
      if (options.validate) {
        Validator.check(column);
        Expansion.check(column, message.bodyLength() + dictionaryBytes);
      }
    }
    return columns;
  }

  private void attach(Column column) {
    if (column.plan().dictionary != null) {
      Known known = dictionaries.get(column.plan().dictionaryId());
      if (known == null && column.nulls() < column.length()) {
        throw column.fault("its dictionary " + column.plan().dictionaryId() + " is not there");
      }
      column.dictionary_$eq(known == null ? new Column.Dictionary(new Column[0]) : known.values);
    }
    for (Column child : column.children()) {
      if (child != null) {
        attach(child);
      }
    }
  }

  /** Where the wanted buffers of a message lie, once its vectors are as long as the schema asks for. */
  private static Column[] walk(Plan.Whole plan, List<Plan> roots, RecordBatch header, Message message, long body,
      List<Wanted> out) {
    boolean old = message.version() == 3; // V4, in which unions have bitmaps
    int views = header.variadicBufferCountsLength();
    Format.unless(views == plan.views, "a batch has %d variadic buffer counts, expected %d", views, plan.views);
    long[] before = new long[views + 1];
    for (int i = 0; i < views; i++) {
      long count = header.variadicBufferCounts(i);
      Format.unless(
          0 <= count && count <= header.buffersLength() - before[i], "a column of views has %d data buffers", count);
      before[i + 1] = before[i] + count;
    }
    long buffers = plan.buffers + before[views] + (old ? plan.unions : 0);
    Format.unless(header.nodesLength() == plan.nodes && header.buffersLength() == buffers,
        "a batch has %d nodes and %d buffers, and its schema asks for %d and %d",
        header.nodesLength(), header.buffersLength(), plan.nodes, buffers);
    Column[] columns = new Column[roots.size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = column(roots.get(i), header, old, before, message.bodyLength(), out);
    }
    long total = out.stream().mapToLong(Wanted::size).sum();
    Limit.unless(total <= body || total - body <= ReadOptions.OVERLAP_BYTES,
        "buffers of %d bytes share a body of %d", total, body);
    return columns;
  }

  private static Column column(
      Plan plan, RecordBatch header, boolean old, long[] before, long body, List<Wanted> out) {
    FieldNode node = header.nodes(plan.node);
    Column column = new Column(plan, node.length(), node.nullCount());
    if (column.length() < 0 || column.nulls() < -1 || column.nulls() > column.length()) {
      throw column.fault("a node of " + column.length() + " elements, " + column.nulls() + " of them null");
    }
    boolean union = plan.layout == Plan.Layout.SPARSE || plan.layout == Plan.Layout.DENSE;
    if (old && union && column.nulls() > 0) {
      throw column.fault("a union with nulls of its own");
    }
    int first = plan.buffer + (int) before[plan.views] + (old ? plan.unions + (union ? 1 : 0) : 0);
    int data = plan.layout == Plan.Layout.VIEW ? (int) (before[plan.views + 1] - before[plan.views]) : 0;
    column.dataAddress_$eq(new long[data]);
    column.dataSize_$eq(new long[data]);
    for (int k = 0; k < plan.layout.buffers + data; k++) {
      org.apache.arrow.flatbuf.Buffer buffer = header.buffers(first + k);
      long offset = buffer.offset();
      long size = buffer.length();
      if (size != 0 && (size < 0 || offset < 0 || offset > body || size > body - offset)) {
        throw column.fault("buffer " + k + ", " + size + " bytes at " + offset + ", is not inside the body of " + body);
      }
      boolean own = k < plan.layout.buffers;
      if (size > 0) {
        out.add(new Wanted(column, own ? k : k - plan.layout.buffers, !own, offset, size));
      }
    }
    for (int i = 0; i < column.children().length; i++) {
      if (plan.children.get(i).wanted) {
        column.children()[i] = column(plan.children.get(i), header, old, before, body, out);
      }
    }
    return column;
  }

  // -- bytes ---------------------------------------------------------------------------------------------------

  private ArrowBuf allocate(ArrowBuf[] memory, int slab, long size) {
    ArrowBuf found = memory[slab];
    if (found != null && found.capacity() >= size && found.capacity() / 4 <= size + GAP) {
      return found;
    }
    release(found);
    memory[slab] = null;
    try {
      return memory[slab] = allocator.buffer(Math.max(size, 64));
    } catch (OutOfMemoryException | OutOfMemoryError error) {
      throw new ArrowIpcException.Limit("a batch needs " + size + " bytes, more than this task has left: "
          + error.getMessage() + "; give the executor more memory, or write shorter batches", error);
    }
  }

  private void fetch(List<Wanted> buffers, IpcFile.Block block, ArrowBuf[] memory) throws IOException {
    Wanted[] sorted = buffers.toArray(new Wanted[0]);
    Arrays.sort(sorted, (one, other) -> Long.compare(one.offset, other.offset));
    List<long[]> ranges = new ArrayList<>(); // start, end, place in memory
    long total = 0;
    for (Wanted each : sorted) {
      long[] last = ranges.isEmpty() ? null : ranges.get(ranges.size() - 1);
      if (last != null && each.offset <= last[1] + GAP) {
        total += Math.max(0, each.offset + each.size - last[1]);
        last[1] = Math.max(last[1], each.offset + each.size);
      } else {
        total = total + 63 & -64L;
        ranges.add(new long[] {each.offset, each.offset + each.size, total});
        total += each.size;
      }
    }
    ArrowBuf into = allocate(memory, 0, total);
    for (long[] range : ranges) {
      file.source().read(block.offset() + block.metadataLength() + range[0], range[1] - range[0], into, range[2]);
    }
    int at = 0;
    for (Wanted each : sorted) {
      while (each.offset >= ranges.get(at)[1]) {
        at++;
      }
      each.put(into.memoryAddress() + ranges.get(at)[2] + each.offset - ranges.get(at)[0], each.size);
    }
  }

  private static int codec(RecordBatch header, Message message) {
    if (header.compression() != null) {
      int codec = header.compression().codec();
      if (codec < 0 || codec > 1 || header.compression().method() != 0) {
        throw new ArrowIpcException.Unsupported("a batch is compressed by the unknown codec " + codec);
      }
      return codec;
    }
    for (int i = 0; i < message.customMetadataLength(); i++) {
      KeyValue pair = message.customMetadata(i);
      if (EXPERIMENTAL.equals(pair.key())) {
        return "zstd".equalsIgnoreCase(pair.value()) ? Codec.ZSTD() : Codec.LZ4();
      }
    }
    return -1;
  }

  private void decompress(List<Wanted> buffers, int codec, ArrowBuf[] memory) {
    long claimed = 0;
    long stored = 0;
    long reserved = 0;
    for (Wanted each : buffers) {
      if (each.size < Codec.PREFIX()) {
        throw each.column.fault("a compressed buffer of " + each.size + " bytes has no room for its length");
      }
      long address = (each.data ? each.column.dataAddress() : each.column.address())[each.number];
      long claim = Platform.getLong(null, address);
      stored += each.size;
      if (claim == -1 || (claim == 0 && each.size == Codec.PREFIX())) {
        each.put(address + Codec.PREFIX(), each.size - Codec.PREFIX());
        continue;
      }
      String why = Codec.refusal(codec, address + Codec.PREFIX(), each.size - Codec.PREFIX(), claim, each.known());
      if (why != null) {
        throw each.column.fault(why);
      }
      claimed += claim;
      reserved += claim + 63 & -64L;
      Limit.unless(claimed <= ReadOptions.DECOMPRESSED_BYTES, "a batch claims more than 2 GiB of uncompressed bytes");
    }
    Limit.unless(claimed <= stored * ReadOptions.DECOMPRESSED_RATIO + ReadOptions.DECOMPRESSED_SLACK,
        "a batch claims %d uncompressed bytes in %d", claimed, stored);
    ArrowBuf into = allocate(memory, 1, reserved);
    long place = into.memoryAddress();
    for (Wanted each : buffers) {
      long address = (each.data ? each.column.dataAddress() : each.column.address())[each.number];
      long size = (each.data ? each.column.dataSize() : each.column.size())[each.number];
      if (address != 0 && size == each.size) {
        long claim = Platform.getLong(null, address);
        Codec.decompress(codec, address + Codec.PREFIX(), each.size - Codec.PREFIX(), place, claim);
        each.put(place, claim);
        place += claim + 63 & -64L;
      }
    }
  }

  // -- dictionaries --------------------------------------------------------------------------------------------

  /** Read the dictionaries that some columns need, as they are for a batch. */
  private void resolve(List<Plan> plans, int batch) throws IOException {
    for (Plan plan : plans) {
      if (plan.wanted && plan.dictionary != null) {
        resolve(plan.dictionary.columns, batch);
        resolve(plan.dictionaryId(), plan.dictionary, batch);
      } else if (plan.wanted) {
        resolve(plan.children, batch);
      }
    }
  }

  private void resolve(long id, Plan.Whole plan, int batch) throws IOException {
    List<IpcFile.DictionaryBlock> blocks = file.dictionaries();
    List<IpcFile.DictionaryBlock> parts = new ArrayList<>();
    int last = -1;
    for (int i = 0; i < blocks.size() && blocks.get(i).before() <= batch; i++) {
      if (blocks.get(i).id() == id) {
        Format.unless(!blocks.get(i).delta() || !parts.isEmpty(), "dictionary %d begins with a delta", id);
        if (!blocks.get(i).delta()) {
          parts.clear();
        }
        parts.add(blocks.get(i));
        last = i;
      }
    }
    Known known = dictionaries.get(id);
    if (last < 0 || (known != null && known.last == last)) {
      return;
    }
    boolean more = known != null && parts.size() > known.blocks.size()
        && parts.subList(0, known.blocks.size()).equals(known.blocks);
    List<ArrowBuf> memory = more ? known.memory : new ArrayList<>();
    if (known != null && !more) {
      release(known.memory);
    }
    // In the map while it grows, so that its memory is released in any case.
    dictionaries.put(id, new Known(-1, parts, null, memory));
    Column[] columns = more ? Arrays.copyOf(known.values.parts(), parts.size()) : new Column[parts.size()];
    for (int i = more ? known.blocks.size() : 0; i < columns.length; i++) {
      ArrowBuf[] own = new ArrowBuf[2];
      try {
        columns[i] = part(plan, parts.get(i), own);
      } finally {
        for (ArrowBuf each : own) {
          if (each != null) {
            memory.add(each);
            dictionaryBytes += each.capacity();
          }
        }
      }
      Limit.unless(dictionaryBytes <= ReadOptions.DICTIONARY_BYTES, "dictionaries of %d bytes", dictionaryBytes);
    }
    dictionaries.put(id, new Known(last, parts, new Column.Dictionary(columns), memory));
  }

  private void release(List<ArrowBuf> memory) {
    for (ArrowBuf each : memory) {
      dictionaryBytes -= each.capacity();
      each.close();
    }
    memory.clear();
  }

  private Column part(Plan.Whole plan, IpcFile.DictionaryBlock part, ArrowBuf[] memory) throws IOException {
    Message message = file.header(part.block());
    RecordBatch header = IpcFile$.MODULE$.dictionaryBatch(message).data();
    Format.unless(header != null, "dictionary %d has no batch", part.id());
    long length = IpcFile$.MODULE$.length(header);
    Column column = load(plan, plan.columns, header, message, part.block(), memory)[0];
    if (column.length() != length) {
      throw column.fault("a dictionary has " + column.length() + " values, and its batch " + length + " rows");
    }
    return column;
  }
}
