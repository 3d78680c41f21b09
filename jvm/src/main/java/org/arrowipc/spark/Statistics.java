package org.arrowipc.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.zip.Inflater;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * What the footer says of the values of each batch, as {@code arrowipc.read.file_statistics} describes it, in the
 * values that rows of Spark hold. Nothing proves it: readers that believe what is false pass over batches.
 */
public final class Statistics {
  private static final String KEY = "arrowipc:statistics";
  private static final int MOST_BYTES = 32 << 20;
  private static final List<String> KEYS = List.of("ARROW:row_count:exact", "ARROW:null_count:exact",
      "ARROW:min_value:exact", "ARROW:min_value:approximate", "ARROW:max_value:exact", "ARROW:max_value:approximate",
      "arrowipc:has_nan");

  /** Of one column in one batch. Nulls of -1 and bounds that are null are not known; so is {@code nan}. */
  public record Entry(
      long rows, long nulls, Object low, boolean lowExact, Object high, boolean highExact, Boolean nan) {}

  private final List<Map<String, Entry>> batches;

  private Statistics(List<Map<String, Entry>> batches) { this.batches = batches; }

  /** What is said of a column in a batch; null where nothing is. */
  public Entry entry(int batch, String column) { return batches.get(batch).get(column); }

  /** The statistics of some columns; null where the file has none, or those of another file. */
  static Statistics of(IpcFile file, StructType schema, ReadOptions options) {
    String text = file.metadata().get(KEY);
    if (text == null || text.isEmpty() || file.batches().isEmpty()) {
      return null;
    }
    try (RootAllocator allocator = new RootAllocator(4L * MOST_BYTES);
        IpcFile inner = IpcFile.open(Source.of(inflated(Base64.getDecoder().decode(text))), options);
        BatchReader reader = new BatchReader(inner, options, allocator)) {
      String said = inner.schema().getCustomMetadata().get(KEY);
      JsonNode document = said == null ? null : new ObjectMapper().readTree(said);
      Column lists = reader.columns(0)[0];
      boolean own = document != null && document.path("v").asInt() == 1
          && document.path("last_block").asText().equals(block(file.batches().get(file.batches().size() - 1)));
      return own && lists.length == file.batches().size() ? read(lists, document.path("columns"), schema, options) : null;
    } catch (Exception error) {
      return null; // it is not of this form
    }
  }

  private static byte[] inflated(byte[] data) throws Exception {
    Inflater inflater = new Inflater();
    try {
      inflater.setInput(data);
      byte[] out = new byte[1 << 16];
      int size = 0;
      while (!inflater.finished() && size < MOST_BYTES) {
        out = size < out.length ? out : java.util.Arrays.copyOf(out, 2 * out.length);
        int count = inflater.inflate(out, size, out.length - size);
        if (count == 0 && !inflater.finished()) {
          break;
        }
        size += count;
      }
      return java.util.Arrays.copyOf(out, inflater.finished() ? size : 0);
    } finally {
      inflater.end();
    }
  }

  private static String block(IpcFile.Block block) {
    ByteBuffer bytes = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
    bytes.putLong(block.offset()).putInt(block.metadataLength()).putInt(0).putLong(block.bodyLength());
    return HexFormat.of().formatHex(bytes.array());
  }

  /** Lists of {column, map of key to a dense union}: see {@code arrowipc.read.file_statistics}. */
  private static Statistics read(Column lists, JsonNode paths, StructType schema, ReadOptions options) {
    Map<Integer, StructField> wanted = new HashMap<>();
    for (Iterator<String> numbers = paths.fieldNames(); numbers.hasNext();) {
      String number = numbers.next();
      for (StructField field : schema.fields()) {
        if (field.name().equals(paths.get(number).asText())) {
          wanted.put(Integer.parseInt(number), field);
        }
      }
    }
    Column items = lists.children[0];
    Column maps = items.children[1];
    Column key = maps.children[0].children[0];
    Column union = maps.children[0].children[1];
    int[] codes = Plan.codes((ArrowType.Union) union.plan.type, union.children.length);
    int[] places = new int[128];
    for (int i = 0; i < codes.length; i++) {
      places[codes[i]] = i;
    }
    String[] keys = new String[(int) key.dictionary.length];
    for (int i = 0; i < keys.length; i++) {
      Column words = key.dictionary.parts[0];
      byte[] word = Vectors.bytes(words.address[2] + words.offset(i), (int) words.count(i));
      keys[i] = new String(word, StandardCharsets.UTF_8);
    }
    Converters converters = new Converters(options);
    Map<String, Vector> vectors = new HashMap<>();
    List<Map<String, Entry>> found = new ArrayList<>();
    for (long batch = 0; batch < lists.length; batch++) {
      Map<String, Entry> entries = new HashMap<>();
      long rows = -1;
      for (long item = lists.offset(batch); item < lists.offset(batch + 1); item++) {
        boolean ofRows = items.children[0].isNull(item);
        StructField field = ofRows ? null : wanted.get((int) items.children[0].word(1, 4, item));
        Object[] said = new Object[KEYS.size()];
        for (long at = maps.offset(item); (ofRows || field != null) && at < maps.offset(item + 1); at++) {
          int kind = KEYS.indexOf(keys[(int) key.index(at)]);
          Column child = union.children[places[(int) union.word(0, 1, at)]];
          boolean bound = 2 <= kind && kind <= 5;
          Vector values = vectors.computeIfAbsent(child.plan.path + (bound ? "=" + field.dataType().json() : ""),
              name -> vector(converters, child, bound ? field : null, options));
          if (kind >= 0 && values != null) {
            said[kind] = value(values, (int) union.word(1, 4, at));
          }
        }
        if (ofRows) {
          rows = said[0] instanceof Long count ? count : -1;
        } else if (field != null && rows >= 0) {
          long nulls = said[1] instanceof Long count && 0 <= count && count <= rows ? count : -1;
          Object low = said[2] == null ? said[3] : said[2];
          Object high = said[4] == null ? said[5] : said[4];
          Boolean nan = said[6] instanceof Boolean is ? is : null;
          entries.put(field.name(), new Entry(rows, nulls, low, said[2] != null, high, said[4] != null, nan));
        }
      }
      found.add(entries);
    }
    return new Statistics(found);
  }

  /** A member of the union as values of a column, or as it is; null where Spark's type does not hold them. */
  private static Vector vector(Converters converters, Column child, StructField field, ReadOptions options) {
    try {
      var type = field == null ? SparkTypes.of(child.plan.field, options, child.plan.path) : field.dataType();
      return converters.plan(child.plan, type, child.plan.path).of(child);
    } catch (ArrowIpcException error) {
      return null;
    }
  }

  private static Object value(Vector vector, int row) {
    if (vector.dataType().typeName().startsWith("time(")) {
      return vector.getLong(row);
    }
    InternalRow found = new ColumnarBatch(new ColumnVector[] {vector}, vector.length).getRow(row);
    return InternalRow.copyValue(found.get(0, vector.dataType()));
  }
}
