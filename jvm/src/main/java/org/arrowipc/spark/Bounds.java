package org.arrowipc.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.vector.types.DateUnit;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What the statistics in the headers of a file's batches say of its columns, in the values that Spark has for them: the
 * JSON that {@code arrowipc.columns.statistics} describes. Nothing proves it.
 */
final class Bounds {
  /** How many values there are, -1: not known; where {@code ends}, the least and the greatest as rows hold them. */
  record Exact(long values, boolean ends, Object low, Object high) {
    static final Exact UNKNOWN = new Exact(-1, false, null, null);
  }

  /**
   * A column of the file, by the path of its statistics; null type: its values compare otherwise than Spark's;
   * {@code counts}: whether it is read as a number of nanoseconds.
   */
  private record Column(String path, ArrowType type, boolean counts) {}

  private static final String KEY = "arrowipc:statistics";
  private static final int MOST_BYTES = 1 << 24;
  private static final int MOST_DIGITS = 80;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final IpcFile file;
  private final StructType schema;
  private final ReadOptions options;
  private final Map<String, Column> columns = new HashMap<>();
  /** What statistics of columns of these names state: the CRC-32 of all paths. */
  private final CRC32 names = new CRC32();
  /** Of the batch that was asked for last. */
  private JsonNode found = JSON.missingNode();
  private int last = -1;

  Bounds(IpcFile file, StructType schema, ReadOptions options) {
    this.file = file;
    this.schema = schema;
    this.options = options;
    List<String> paths = new ArrayList<>();
    addPaths(file.schema().getFields(), "", paths);
    names.update(String.join("\0", paths).getBytes(StandardCharsets.UTF_8));
  }

  private static void addPaths(List<Field> fields, String prefix, List<String> paths) {
    for (Field field : fields) {
      paths.add(prefix + field.getName());
      if (field.getType() instanceof ArrowType.Struct && field.getDictionary() == null) {
        addPaths(field.getChildren(), prefix + field.getName() + ".", paths);
      }
    }
  }

  /** What a filter may ask of a column in a batch; {@code name} is as Spark's filters have it. */
  Pruner.Known known(int batch, String name) {
    Column column = column(name);
    if (column == null) {
      return missing(name) ? Pruner.Known.MISSING : Pruner.Known.NOTHING;
    }
    JsonNode all = statistics(batch);
    JsonNode one = all.path("columns").path(column.path);
    if (!sane(all, one)) {
      return Pruner.Known.NOTHING;
    }
    long nulls = one.path("nulls").asLong(-1);
    boolean nan = one.path("kind").asText().equals("float") && one.path("nan").asBoolean(true);
    Object high = nan ? null : value(column, one, "max");
    return new Pruner.Known(nulls != all.path("rows").asLong(-2), nulls != 0, value(column, one, "min"), high);
  }

  /** What is known for sure of a column in a batch of some rows. */
  Exact exact(FoundFile in, int batch, StructField field, long rows) {
    if (Names.find(field.name(), in.keys().keySet()) != null) {
      Object value = Folders.typed(in, field);
      return new Exact(value == null ? 0 : rows, true, value, value);
    }
    Column column = column(field.name());
    if (column == null) {
      return missing(field.name()) ? new Exact(0, true, null, null) : Exact.UNKNOWN;
    }
    JsonNode all = statistics(batch);
    JsonNode one = all.path("columns").path(column.path);
    if (!sane(all, one) || !one.has("nulls")) {
      return Exact.UNKNOWN;
    }
    long values = rows - one.path("nulls").asLong();
    boolean odd = one.path("nan").asBoolean(false) || !one.path("min_exact").asBoolean(true);
    odd |= column.type instanceof ArrowType.Timestamp time && time.getUnit() == TimeUnit.NANOSECOND && !column.counts;
    Object low = row(value(column, one, "min"), field.dataType());
    Object high = row(value(column, one, "max"), field.dataType());
    odd |= !one.path("max_exact").asBoolean(true) || low == null || high == null;
    boolean ends = !odd && Pruner.compare(Pruner.comparable(low), Pruner.comparable(high)) <= 0;
    return new Exact(values, values == 0 || ends, values == 0 ? null : low, values == 0 ? null : high);
  }

  /** Whether no batch has a column of a name: it is null in all rows. */
  private boolean missing(String name) {
    return file.schema().getFields().stream().noneMatch(each -> name.equalsIgnoreCase(each.getName()))
        && name.indexOf('.') < 0;
  }

  private static boolean sane(JsonNode all, JsonNode one) {
    long rows = all.path("rows").longValue();
    JsonNode nulls = one.path("nulls");
    boolean counted = nulls.isMissingNode() || (nulls.isIntegralNumber() && nulls.longValue() <= rows && nulls.longValue() >= 0);
    return one.isObject() && all.path("rows").isIntegralNumber() && rows >= 0 && counted;
  }

  /** Those of a batch; none that a tool copied from a batch of other rows or columns. */
  private JsonNode statistics(int batch) {
    if (last != batch) {
      last = batch;
      found = JSON.missingNode();
      try {
        Message message = file.header(file.batches().get(batch));
        for (int at = 0; at < message.customMetadataLength(); at++) {
          String text = KEY.equals(message.customMetadata(at).key()) ? message.customMetadata(at).value() : null;
          if (text != null && text.length() <= MOST_BYTES) {
            JsonNode read = JSON.readTree(text);
            long rows = IpcFile$.MODULE$.length(IpcFile$.MODULE$.batch(message));
            boolean own = read.path("rows").asLong(-1) == rows && read.path("names").asLong(-1) == names.getValue();
            found = own && read.path("v").asInt() == 1 ? read : JSON.missingNode();
          }
        }
      } catch (IOException | RuntimeException damaged) {
        return found; // it is reported when it is read
      }
    }
    return found;
  }

  /** The file's column that a name means; null where there is none. */
  private Column column(String name) {
    return columns.computeIfAbsent(name, this::looked);
  }

  private Column looked(String name) {
    if (name.indexOf('`') >= 0 || Names.find(name, List.of(Inference.METADATA.fieldNames())) != null) {
      return new Column(name, null, false);
    }
    List<Field> fields = file.schema().getFields();
    DataType target = schema;
    List<String> path = new ArrayList<>();
    Field field = null;
    for (String part : name.split("\\.")) {
      String own = Names.find(part, fields.stream().map(Field::getName).toList());
      if (own == null || !(target instanceof StructType struct)) {
        return null;
      }
      String wanted = Names.find(part, List.of(struct.fieldNames()));
      field = fields.stream().filter(each -> own.equals(each.getName())).findFirst().orElseThrow();
      target = wanted == null ? DataTypes.NullType : struct.apply(wanted).dataType();
      fields = field.getType() instanceof ArrowType.Struct ? field.getChildren() : List.of();
      path.add(own);
    }
    String where = String.join(".", path);
    Field stored = field.getType() instanceof ArrowType.RunEndEncoded ? field.getChildren().get(1) : field;
    boolean same = SparkTypes.of(field, options, where).equals(target);
    return new Column(where, same ? Plan.stored(stored) : null, target.equals(DataTypes.LongType));
  }

  /** A bound in the one form in which values compare; null: not known, or it does not compare. */
  private static Object value(Column column, JsonNode one, String end) {
    ArrowType type = column.type;
    JsonNode bound = one.path(end);
    if (type == null || bound.isMissingNode() || bound.isNull()) {
      return null;
    }
    try {
      boolean digits = one.path("kind").asText().equals("int") && bound.asText().length() <= MOST_DIGITS;
      BigInteger whole = digits ? new BigInteger(bound.asText()) : null;
      switch (type.getTypeID()) {
        case Bool:
          return bound.isBoolean() ? bound.booleanValue() : null;
        case Utf8, LargeUtf8, Utf8View:
          return one.path("kind").asText().equals("text") ? UTF8String.fromString(bound.asText()) : null;
        case Binary, LargeBinary, BinaryView, FixedSizeBinary:
          boolean binary = one.path("kind").asText().equals("binary");
          return binary ? UTF8String.fromBytes(Base64.getDecoder().decode(bound.asText())) : null;
        case FloatingPoint:
          String text = bound.asText().replace("inf", "Infinity");
          return one.path("kind").asText().equals("float") ? Double.parseDouble(text) + 0.0 : null;
        case Int:
          ArrowType.Int of = (ArrowType.Int) type;
          return of.getIsSigned() || of.getBitWidth() < 64 ? (Object) whole.longValueExact() : new BigDecimal(whole);
        case Decimal:
          return new BigDecimal(whole, ((ArrowType.Decimal) type).getScale());
        case Date:
          boolean days = ((ArrowType.Date) type).getUnit() == DateUnit.DAY;
          return Math.floorDiv(whole.longValueExact(), days ? 1L : 86_400_000L);
        case Timestamp:
          TimeUnit unit = ((ArrowType.Timestamp) type).getUnit();
          if (unit == TimeUnit.NANOSECOND) {
            return Math.floorDiv(whole.longValueExact(), column.counts ? 1L : 1000L);
          }
          long factor = unit == TimeUnit.SECOND ? 1_000_000L : unit == TimeUnit.MILLISECOND ? 1000L : 1L;
          return Math.multiplyExact(whole.longValueExact(), factor);
        default:
          return null;
      }
    } catch (ArithmeticException | IllegalArgumentException | NullPointerException none) {
      return null;
    }
  }

  /** A value as Spark's rows hold it; null where it may not be the very one. */
  private static Object row(Object value, DataType type) {
    if (value instanceof Long whole) {
      return type == DataTypes.ByteType
          ? (Object) whole.byteValue()
          : type == DataTypes.ShortType
              ? (Object) whole.shortValue()
              : type == DataTypes.IntegerType || type == DataTypes.DateType ? (Object) whole.intValue() : whole;
    } else if (value instanceof Double real) {
      return real == 0 ? null : type == DataTypes.FloatType ? (Object) real.floatValue() : real; // of which sign?
    } else if (value instanceof UTF8String text && type == DataTypes.BinaryType) {
      return text.getBytes();
    } else if (value instanceof BigDecimal decimal && type instanceof DecimalType wanted) {
      return Decimal.apply(decimal, wanted.precision(), wanted.scale());
    }
    return value;
  }
}
