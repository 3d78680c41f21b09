package org.arrowipc.spark;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the files that are named line by line, all rows of them, and says how it went: for tests. */
public final class Dump {
  private static final long MEMORY = 512L << 20;

  private Dump() {}

  public static void main(String[] arguments) throws Exception {
    Map<String, String> given = new HashMap<>();
    for (String each : arguments) {
      given.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
    }
    ReadOptions options = new ReadOptions(new CaseInsensitiveStringMap(given));
    BufferedReader paths = new BufferedReader(new InputStreamReader(System.in));
    for (String path = paths.readLine(); path != null; path = paths.readLine()) {
      System.out.println(attempt(path, options));
    }
  }

  private static String attempt(String path, ReadOptions options) {
    try (RootAllocator allocator = new RootAllocator(MEMORY)) {
      long start = System.nanoTime();
      return "ok " + rows(path, options, allocator) + " in " + (System.nanoTime() - start) / 1_000_000;
    } catch (Throwable error) {
      String text = String.valueOf(error.getMessage()).replace('\n', ' ');
      return "error " + error.getClass().getSimpleName() + ": " + text;
    }
  }

  private static long rows(String path, ReadOptions options, BufferAllocator allocator) throws Exception {
    long rows = 0;
    try (Source source = Source.local(path)) {
      IpcFile file = IpcFile.open(source, options);
      StructType schema = SparkTypes.schema(file.schema(), options);
      UnsafeProjection projection = UnsafeProjection.create(schema);
      try (BatchReader reader = new BatchReader(file, schema, options, allocator)) {
        for (int i = 0; i < file.batches().size(); i++) {
          ColumnarBatch batch = reader.read(i);
          var found = batch.rowIterator();
          for (int n = 0; n < 1000 && found.hasNext(); n++) {
            projection.apply(found.next());
          }
          rows += batch.numRows();
        }
      }
    }
    return rows;
  }
}
