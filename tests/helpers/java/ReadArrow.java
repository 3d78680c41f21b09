// Prints what Arrow Java reads of streams and files: a line of JSON per path, the schema in Arrow's integration format.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileInputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.arrow.compression.CommonsCompressionFactory;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.*;
import org.apache.arrow.vector.complex.*;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.Text;

public final class ReadArrow {
  private static final CommonsCompressionFactory CODECS = CommonsCompressionFactory.INSTANCE;

  private final ArrowReader reader;
  /** As it is written; the reader itself shows dictionary fields as their indices. */
  private Schema schema;

  /** Arguments: pairs of "stream" or "file" and a path. */
  public static void main(String[] arguments) throws IOException {
    // Never closed: that would fail for what a reader that refused its input still holds.
    BufferAllocator memory = new RootAllocator();
    ObjectMapper json = new ObjectMapper();
    for (int i = 0; i < arguments.length; i += 2) {
      Object found;
      try (FileInputStream source = new FileInputStream(arguments[i + 1])) {
        found = new ReadArrow(source, memory, arguments[i].equals("file")).read(json);
      } catch (Throwable refused) {
        found = Map.of("error", refused.toString());
      }
      System.out.println(json.writeValueAsString(found));
    }
  }

  private ReadArrow(FileInputStream source, BufferAllocator memory, boolean file) {
    reader = file ? new ArrowFileReader(source.getChannel(), memory, CODECS) {
      @Override
      protected Schema readSchema() throws IOException {
        return schema = super.readSchema();
      }
    } : new ArrowStreamReader(source, memory, CODECS) {
      @Override
      protected Schema readSchema() throws IOException {
        return schema = super.readSchema();
      }
    };
  }

  private Object read(ObjectMapper json) throws IOException {
    VectorSchemaRoot root = reader.getVectorSchemaRoot();
    List<Object> batches = new ArrayList<>();
    while (reader.loadNextBatch()) {
      List<Object> columns = new ArrayList<>();
      for (int i = 0; i < schema.getFields().size(); i++) {
        columns.add(range(schema.getFields().get(i), root.getVector(i), 0, root.getRowCount()));
      }
      batches.add(Map.of("rows", root.getRowCount(), "columns", columns));
    }
    reader.close();
    return Map.of("schema", json.readTree(schema.toJson()), "batches", batches);
  }

  // Values: by the fields as they are written, since vectors make fields of their own.

  private List<Object> range(Field field, FieldVector vector, long start, long length) throws IOException {
    List<Object> found = new ArrayList<>();
    for (long i = start; i < start + length; i++) {
      found.add(value(field, vector, Math.toIntExact(i)));
    }
    return found;
  }

  private Object value(Field field, FieldVector vector, int i) throws IOException {
    if (field.getDictionary() != null) {
      if (vector.isNull(i)) {
        return null;
      }
      Field words = new Field("", FieldType.nullable(field.getType()), field.getChildren());
      long index = ((BaseIntVector) vector).getValueAsLong(i);
      FieldVector values = reader.getDictionaryVectors().get(field.getDictionary().getId()).getVector();
      return value(words, values, Math.toIntExact(index));
    } else if (vector instanceof ExtensionTypeVector<?> wrapped) {
      return value(field, (FieldVector) wrapped.getUnderlyingVector(), i);
    } else if (vector instanceof DenseUnionVector dense) {
      return member(field, vector, dense.getTypeId(i), dense.getOffset(i));
    } else if (vector instanceof UnionVector sparse) {
      return member(field, vector, sparse.getTypeValue(i), i);
    } else if (vector instanceof RunEndEncodedVector runs) {
      return value(field.getChildren().get(1), runs.getValuesVector(), runs.getPhysicalIndex(i));
    } else if (vector instanceof NullVector || vector.isNull(i)) {
      return null;
    } else if (vector instanceof StructVector) {
      return members(field, vector, i);
    } else if (vector instanceof MapVector map) {
      List<Object> pairs = new ArrayList<>();
      for (int at = map.getElementStartIndex(i); at < map.getElementEndIndex(i); at++) {
        pairs.add(members(field.getChildren().get(0), vector.getChildrenFromFields().get(0), at));
      }
      return pairs;
    } else if (vector instanceof LargeListVector list) {
      return list(field, vector, list.getElementStartIndex(i), list.getElementEndIndex(i));
    } else if (vector instanceof BaseListVector list) {
      return list(field, vector, list.getElementStartIndex(i), list.getElementEndIndex(i));
    } else if (vector instanceof ListViewVector list) {
      return list(field, vector, list.getElementStartIndex(i), list.getElementEndIndex(i));
    } else if (vector instanceof LargeListViewVector list) {
      long start = list.getOffsetBuffer().getLong(8L * i);
      return list(field, vector, start, start + list.getSizeBuffer().getLong(8L * i));
    }
    return scalar(vector, i);
  }

  private Object member(Field field, FieldVector vector, int code, int at) throws IOException {
    int[] codes = ((ArrowType.Union) field.getType()).getTypeIds();
    int child = 0;
    while (codes[child] != code) {
      child++;
    }
    Object value = value(field.getChildren().get(child), vector.getChildrenFromFields().get(child), at);
    return Arrays.asList(code, value);
  }

  private List<Object> list(Field field, FieldVector vector, long start, long end) throws IOException {
    return range(field.getChildren().get(0), vector.getChildrenFromFields().get(0), start, end - start);
  }

  private List<Object> members(Field field, FieldVector struct, int i) throws IOException {
    List<Object> found = new ArrayList<>();
    for (int child = 0; child < field.getChildren().size(); child++) {
      found.add(value(field.getChildren().get(child), struct.getChildrenFromFields().get(child), i));
    }
    return found;
  }

  private static Object scalar(FieldVector vector, int i) {
    Object value = vector.getObject(i);
    if (value instanceof Boolean) {
      return value;
    } else if (value instanceof Text) {
      return value.toString();
    } else if (value instanceof byte[] bytes) {
      return HexFormat.of().formatHex(bytes);
    } else if (vector instanceof FloatingPointVector v) {
      double number = v.getValueAsDouble(i);
      return number != number ? "nan" : String.format("%016x", Double.doubleToRawLongBits(number));
    } else if (value instanceof BigDecimal decimal) {
      return decimal.unscaledValue().toString();
    } else if (vector instanceof UInt8Vector v) {
      return Long.toUnsignedString(v.get(i));
    } else if (vector instanceof BaseIntVector v) {
      return Long.toString(v.getValueAsLong(i));
    } else if (vector instanceof BaseFixedWidthVector v) {
      int width = v.getTypeWidth();
      long at = (long) i * width;
      ArrowBuf data = v.getDataBuffer();
      if (vector instanceof IntervalDayVector) {
        return List.of("" + data.getInt(at), "" + data.getInt(at + 4));
      } else if (vector instanceof IntervalMonthDayNanoVector) {
        return List.of("" + data.getInt(at), "" + data.getInt(at + 4), "" + data.getLong(at + 8));
      }
      return Long.toString(width == 4 ? data.getInt(at) : data.getLong(at));
    }
    throw new IllegalStateException("no words for " + vector.getClass());
  }
}
