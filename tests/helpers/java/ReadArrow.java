// Prints what Arrow Java reads from streams and files: one line of JSON per path given.

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.util.List;
import java.util.Map;
import org.apache.arrow.compression.CommonsCompressionFactory;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.*;
import org.apache.arrow.vector.complex.*;
import org.apache.arrow.vector.dictionary.Dictionary;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.UnionMode;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.Text;

public final class ReadArrow {
  private final JsonGenerator out;
  private Map<Long, Dictionary> dictionaries;

  private ReadArrow(JsonGenerator out) {
    this.out = out;
  }

  /** Arguments: pairs of "stream" or "file" and a path. */
  public static void main(String[] arguments) throws IOException {
    // Never closed: that would fail for what a reader that refused its input still holds.
    BufferAllocator memory = new RootAllocator();
    for (int i = 0; i < arguments.length; i += 2) {
      System.out.println(line(memory, arguments[i].equals("file"), arguments[i + 1]));
    }
  }

  private static String line(BufferAllocator memory, boolean file, String path) throws IOException {
    StringWriter text = new StringWriter();
    try (JsonGenerator out = new JsonFactory().createGenerator(text)) {
      new ReadArrow(out).read(memory, file, path);
      out.flush();
      return text.toString();
    } catch (Throwable refused) {
      StringWriter reason = new StringWriter();
      try (JsonGenerator out = new JsonFactory().createGenerator(reason)) {
        out.writeStartObject();
        out.writeStringField("error", refused.toString());
        out.writeEndObject();
      }
      return reason.toString();
    }
  }

  /** Keeps the schema as it is written; the reader itself shows dictionary fields as their indices. */
  private static final class Stream extends ArrowStreamReader {
    private Schema written;

    Stream(FileInputStream source, BufferAllocator memory) {
      super(source, memory, CommonsCompressionFactory.INSTANCE);
    }

    @Override
    protected Schema readSchema() throws IOException {
      written = super.readSchema();
      return written;
    }
  }

  /** The same for files. */
  private static final class File extends ArrowFileReader {
    private Schema written;

    File(FileInputStream source, BufferAllocator memory) {
      super(source.getChannel(), memory, CommonsCompressionFactory.INSTANCE);
    }

    @Override
    protected Schema readSchema() throws IOException {
      written = super.readSchema();
      return written;
    }
  }

  private void read(BufferAllocator memory, boolean file, String path) throws IOException {
    try (FileInputStream source = new FileInputStream(path);
        ArrowReader reader = file ? new File(source, memory) : new Stream(source, memory)) {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      Schema schema = reader instanceof File f ? f.written : ((Stream) reader).written;
      out.writeStartObject();
      schema(schema);
      out.writeArrayFieldStart("batches");
      while (reader.loadNextBatch()) {
        dictionaries = reader.getDictionaryVectors();
        batch(schema, root);
      }
      out.writeEndArray();
      out.writeEndObject();
    }
  }

  private void batch(Schema schema, VectorSchemaRoot root) throws IOException {
    out.writeStartObject();
    out.writeNumberField("rows", root.getRowCount());
    out.writeArrayFieldStart("columns");
    for (int i = 0; i < schema.getFields().size(); i++) {
      range(schema.getFields().get(i), root.getVector(i), 0, root.getRowCount());
    }
    out.writeEndArray();
    out.writeEndObject();
  }

  // Types.

  private void schema(Schema schema) throws IOException {
    out.writeObjectFieldStart("schema");
    out.writeArrayFieldStart("fields");
    for (Field field : schema.getFields()) {
      field(field);
    }
    out.writeEndArray();
    metadata(schema.getCustomMetadata());
    out.writeEndObject();
  }

  private void metadata(Map<String, String> words) throws IOException {
    out.writeObjectFieldStart("metadata");
    for (Map.Entry<String, String> word : words.entrySet()) {
      out.writeStringField(word.getKey(), word.getValue());
    }
    out.writeEndObject();
  }

  private void field(Field field) throws IOException {
    DictionaryEncoding encoding = field.getDictionary();
    out.writeStartObject();
    out.writeStringField("name", field.getName());
    out.writeStringField("type", type(field.getType()));
    out.writeBooleanField("nullable", field.isNullable());
    if (encoding == null) {
      out.writeNullField("dictionary");
    } else {
      out.writeObjectFieldStart("dictionary");
      out.writeStringField("index", type(encoding.getIndexType()));
      out.writeBooleanField("ordered", encoding.isOrdered());
      out.writeEndObject();
    }
    metadata(field.getMetadata());
    out.writeArrayFieldStart("children");
    for (Field child : field.getChildren()) {
      field(child);
    }
    out.writeEndArray();
    out.writeEndObject();
  }

  private static String unit(TimeUnit unit) {
    return switch (unit) {
      case SECOND -> "s";
      case MILLISECOND -> "ms";
      case MICROSECOND -> "us";
      case NANOSECOND -> "ns";
    };
  }

  private static String type(ArrowType type) {
    if (type instanceof ArrowType.ExtensionType t) {
      return type(t.storageType());
    } else if (type instanceof ArrowType.Int t) {
      return (t.getIsSigned() ? "int" : "uint") + t.getBitWidth();
    } else if (type instanceof ArrowType.FloatingPoint t) {
      return switch (t.getPrecision()) {
        case HALF -> "float16";
        case SINGLE -> "float32";
        case DOUBLE -> "float64";
      };
    } else if (type instanceof ArrowType.Decimal t) {
      return "decimal" + t.getBitWidth() + "(" + t.getPrecision() + "," + t.getScale() + ")";
    } else if (type instanceof ArrowType.Date t) {
      return t.getUnit().name().equals("DAY") ? "date[day]" : "date[ms]";
    } else if (type instanceof ArrowType.Time t) {
      return "time" + t.getBitWidth() + "[" + unit(t.getUnit()) + "]";
    } else if (type instanceof ArrowType.Timestamp t) {
      String zone = t.getTimezone() == null || t.getTimezone().isEmpty() ? "" : ", " + t.getTimezone();
      return "timestamp[" + unit(t.getUnit()) + zone + "]";
    } else if (type instanceof ArrowType.Duration t) {
      return "duration[" + unit(t.getUnit()) + "]";
    } else if (type instanceof ArrowType.Interval t) {
      return "interval[" + t.getUnit().name().toLowerCase() + "]";
    } else if (type instanceof ArrowType.FixedSizeBinary t) {
      return "fixed_size_binary[" + t.getByteWidth() + "]";
    } else if (type instanceof ArrowType.FixedSizeList t) {
      return "fixed_size_list[" + t.getListSize() + "]";
    } else if (type instanceof ArrowType.Map t) {
      return t.getKeysSorted() ? "map[sorted]" : "map";
    } else if (type instanceof ArrowType.Union t) {
      String codes = "";
      for (int code : t.getTypeIds()) {
        codes += (codes.isEmpty() ? "" : ",") + code;
      }
      return (t.getMode() == UnionMode.Dense ? "dense" : "sparse") + "_union[" + codes + "]";
    }
    return switch (type.getTypeID()) {
      case Null -> "null";
      case Bool -> "bool";
      case Utf8 -> "utf8";
      case LargeUtf8 -> "large_utf8";
      case Utf8View -> "utf8_view";
      case Binary -> "binary";
      case LargeBinary -> "large_binary";
      case BinaryView -> "binary_view";
      case List -> "list";
      case LargeList -> "large_list";
      case ListView -> "list_view";
      case LargeListView -> "large_list_view";
      case Struct -> "struct";
      case RunEndEncoded -> "run_end_encoded";
      default -> type.toString();
    };
  }

  // Values: by the fields as they are written, since vectors make fields of their own.

  private void range(Field field, FieldVector vector, long start, long length) throws IOException {
    out.writeStartArray();
    for (long i = start; i < start + length; i++) {
      value(field, vector, Math.toIntExact(i));
    }
    out.writeEndArray();
  }

  private void value(Field field, FieldVector vector, int i) throws IOException {
    DictionaryEncoding encoding = field.getDictionary();
    if (encoding != null) {
      if (vector.isNull(i)) {
        out.writeNull();
      } else {
        long index = ((BaseIntVector) vector).getValueAsLong(i);
        value(plain(field), dictionaries.get(encoding.getId()).getVector(), Math.toIntExact(index));
      }
    } else if (vector instanceof ExtensionTypeVector<?> wrapped) {
      value(field, (FieldVector) wrapped.getUnderlyingVector(), i);
    } else if (vector instanceof UnionVector || vector instanceof DenseUnionVector) {
      union(field, vector, i);
    } else if (vector instanceof RunEndEncodedVector runs) {
      value(field.getChildren().get(1), runs.getValuesVector(), runs.getPhysicalIndex(i));
    } else if (vector instanceof NullVector || vector.isNull(i)) {
      out.writeNull();
    } else if (!nested(field, vector, i)) {
      scalar(vector, i);
    }
  }

  /** The field of a dictionary's words. */
  private static Field plain(Field field) {
    return new Field(field.getName(), FieldType.nullable(field.getType()), field.getChildren());
  }

  private void union(Field field, FieldVector vector, int i) throws IOException {
    int code, at = i;
    if (vector instanceof DenseUnionVector dense) {
      code = dense.getTypeId(i);
      at = dense.getOffset(i);
    } else {
      code = ((UnionVector) vector).getTypeValue(i);
    }
    int[] codes = ((ArrowType.Union) field.getType()).getTypeIds();
    int child = 0;
    while (codes[child] != code) {
      child++;
    }
    out.writeStartArray();
    out.writeNumber(code);
    value(field.getChildren().get(child), vector.getChildrenFromFields().get(child), at);
    out.writeEndArray();
  }

  /** Writes a list, map or struct; false if the vector is none. */
  private boolean nested(Field field, FieldVector vector, int i) throws IOException {
    if (vector instanceof StructVector) {
      members(field, vector, i);
      return true;
    }
    List<FieldVector> below = vector.getChildrenFromFields();
    if (vector instanceof MapVector map) {
      Field entries = field.getChildren().get(0);
      out.writeStartArray();
      for (int at = map.getElementStartIndex(i); at < map.getElementEndIndex(i); at++) {
        members(entries, below.get(0), at);
      }
      out.writeEndArray();
      return true;
    }
    long start, length;
    if (vector instanceof LargeListVector list) {
      start = list.getElementStartIndex(i);
      length = list.getElementEndIndex(i) - start;
    } else if (vector instanceof BaseListVector list) {
      start = list.getElementStartIndex(i);
      length = list.getElementEndIndex(i) - start;
    } else if (vector instanceof ListViewVector list) {
      start = list.getElementStartIndex(i);
      length = list.getElementEndIndex(i) - start;
    } else if (vector instanceof LargeListViewVector list) {
      start = list.getOffsetBuffer().getLong(8L * i);
      length = list.getSizeBuffer().getLong(8L * i);
    } else {
      return false;
    }
    range(field.getChildren().get(0), below.get(0), start, length);
    return true;
  }

  private void members(Field field, FieldVector struct, int i) throws IOException {
    out.writeStartArray();
    for (int child = 0; child < field.getChildren().size(); child++) {
      value(field.getChildren().get(child), struct.getChildrenFromFields().get(child), i);
    }
    out.writeEndArray();
  }

  private void scalar(FieldVector vector, int i) throws IOException {
    if (vector instanceof BitVector v) {
      out.writeBoolean(v.get(i) == 1);
    } else if (vector instanceof VarCharVector || vector instanceof LargeVarCharVector
        || vector instanceof ViewVarCharVector) {
      out.writeString(((Text) vector.getObject(i)).toString());
    } else if (vector.getObject(i) instanceof byte[] bytes) {
      hex(bytes);
    } else if (vector instanceof Float2Vector v) {
      number(v.getValueAsDouble(i));
    } else if (vector instanceof FloatingPointVector v) {
      number(v.getValueAsDouble(i));
    } else if (vector.getObject(i) instanceof BigDecimal decimal) {
      out.writeString(decimal.unscaledValue().toString());
    } else if (vector instanceof UInt8Vector v) {
      out.writeString(Long.toUnsignedString(v.get(i)));
    } else if (vector instanceof BaseIntVector v) {
      out.writeString(Long.toString(v.getValueAsLong(i)));
    } else if (vector instanceof IntervalDayVector || vector instanceof IntervalMonthDayNanoVector) {
      interval((BaseFixedWidthVector) vector, i);
    } else if (vector instanceof BaseFixedWidthVector v) {
      long width = v.getTypeWidth();
      ArrowBuf data = v.getDataBuffer();
      out.writeString(Long.toString(width == 4 ? data.getInt(i * width) : data.getLong(i * width)));
    } else {
      throw new IllegalStateException("no words for " + vector.getClass());
    }
  }

  private void interval(BaseFixedWidthVector vector, int i) throws IOException {
    long at = (long) i * vector.getTypeWidth();
    ArrowBuf data = vector.getDataBuffer();
    out.writeStartArray();
    out.writeString(Integer.toString(data.getInt(at)));
    out.writeString(Integer.toString(data.getInt(at + 4)));
    if (vector.getTypeWidth() == 16) {
      out.writeString(Long.toString(data.getLong(at + 8)));
    }
    out.writeEndArray();
  }

  private void number(double value) throws IOException {
    out.writeString(value != value ? "nan" : String.format("%016x", Double.doubleToRawLongBits(value)));
  }

  private void hex(byte[] bytes) throws IOException {
    StringBuilder text = new StringBuilder();
    for (byte part : bytes) {
      text.append(String.format("%02x", part));
    }
    out.writeString(text.toString());
  }
}
