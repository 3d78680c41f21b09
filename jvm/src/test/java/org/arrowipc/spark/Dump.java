package org.arrowipc.spark;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the files that are named line by line and says how it went, for tests.
 *
 * <p>A line has a path and options, parted by tabs; {@code schema} among them is Spark's JSON of the columns wanted,
 * {@code values=true} asks for the values. The answers are {@code ok ROWS}, {@code ok [[value, ...], ...]} or
 * {@code error CLASS: message}. Rows are copied out of the batches as Spark does it.
 */
public final class Dump {
  private static final long MEMORY = 512L << 20;
  /** Of a batch so many rows are copied, and of a file so many batches read. */
  private static final int ROWS = 100;
  private static final int BATCHES = 100;

  private Dump() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      long start = System.nanoTime();
      String found = attempt(line.split("\t")).replaceAll("\\p{Cntrl}", " ");
      String status = Files.readString(Path.of("/proc/self/status"));
      String peak = status.replaceAll("(?s).*VmHWM:\\s*(\\d+).*", "$1");
      out.println("took " + (System.nanoTime() - start) / 1_000_000 + " ms, peak " + peak + " KiB");
      out.println(found);
    }
  }

  private static String attempt(String[] line) {
    Map<String, String> given = new HashMap<>();
    for (int i = 1; i < line.length; i++) {
      given.put(line[i].substring(0, line[i].indexOf('=')), line[i].substring(line[i].indexOf('=') + 1));
    }
    // Its close fails where a reader leaves memory behind.
    try (RootAllocator allocator = new RootAllocator(MEMORY)) {
      return "ok " + read(line[0], given, allocator);
    } catch (Throwable error) {
      return "error " + error.getClass().getSimpleName() + ": " + error.getMessage();
    }
  }

  private static String read(String path, Map<String, String> given, BufferAllocator allocator) throws Exception {
    ReadOptions options = new ReadOptions(new CaseInsensitiveStringMap(given));
    boolean values = given.containsKey("values");
    long rows = 0;
    List<String> texts = new ArrayList<>();
    try (IpcFile file = IpcFile.open(Source.local(path), options)) {
      StructType schema = given.containsKey("schema")
          ? (StructType) DataType.fromJson(given.get("schema")) : SparkTypes.schema(file.schema(), options);
      UnsafeProjection projection = values ? null : UnsafeProjection.create(schema);
      try (BatchReader reader = new BatchReader(file, schema, options, allocator)) {
        for (int i = 0; i < Math.min(BATCHES, file.batches().size()); i++) {
          ColumnarBatch batch = reader.read(i);
          Iterator<InternalRow> found = batch.rowIterator();
          for (int n = 0; n < ROWS && found.hasNext(); n++) {
            InternalRow row = found.next();
            if (values) {
              texts.add(struct(row, schema));
            } else {
              projection.apply(row);
            }
          }
          rows += batch.numRows();
        }
        if (file.fault().isDefined()) {
          throw new ArrowIpcException.Format(rows + " rows, then " + file.fault().get().error().getMessage());
        }
      }
    }
    return values ? texts.toString() : String.valueOf(rows);
  }

  private static String struct(InternalRow row, StructType type) {
    List<String> found = new ArrayList<>();
    StructField[] fields = type.fields();
    for (int i = 0; i < fields.length; i++) {
      found.add(text(row, i, fields[i].dataType()));
    }
    return found.toString();
  }

  /** JSON of a value: moments as numbers, decimals as text, bytes and floating-point numbers as hexadecimal digits. */
  private static String text(SpecializedGetters row, int at, DataType type) {
    if (row.isNullAt(at)) {
      return "null";
    } else if (type instanceof StructType struct) {
      return struct(row.getStruct(at, struct.length()), struct);
    } else if (type instanceof ArrayType array) {
      return array(row.getArray(at), array.elementType()).toString();
    } else if (type instanceof MapType map) {
      List<String> pairs = new ArrayList<>();
      List<String> keys = array(row.getMap(at).keyArray(), map.keyType());
      List<String> values = array(row.getMap(at).valueArray(), map.valueType());
      for (int i = 0; i < keys.size(); i++) {
        pairs.add("[" + keys.get(i) + ", " + values.get(i) + "]");
      }
      return pairs.toString();
    } else if (type instanceof DecimalType decimal) {
      return '"' + row.getDecimal(at, decimal.precision(), decimal.scale()).toJavaBigDecimal().toPlainString() + '"';
    } else if (type instanceof FloatType) {
      return '"' + Integer.toHexString(Float.floatToRawIntBits(row.getFloat(at))) + '"';
    } else if (type instanceof DoubleType) {
      return '"' + Long.toHexString(Double.doubleToRawLongBits(row.getDouble(at))) + '"';
    } else if (type instanceof BinaryType) {
      return '"' + HexFormat.of().formatHex(row.getBinary(at)) + '"';
    } else if (type instanceof StringType) {
      return '"' + row.getUTF8String(at).toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    } else if (type.typeName().startsWith("time(")) {
      return String.valueOf(row.getLong(at)); // which the rows of Spark's vectors do not get as what it is
    }
    return String.valueOf(row.get(at, type));
  }

  private static List<String> array(SpecializedGetters array, DataType type) {
    List<String> found = new ArrayList<>();
    int length = ((org.apache.spark.sql.catalyst.util.ArrayData) array).numElements();
    for (int i = 0; i < length; i++) {
      found.add(text(array, i, type));
    }
    return found;
  }
}
