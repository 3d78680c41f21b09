package org.arrowipc.spark;

import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** What the statistics of a file's batches say of its columns, in the values that Spark has for them. */
final class Bounds {
  /** How many values there are (-1: not known), and where {@code ends} the least and the greatest, as rows hold them. */
  record Exact(long values, boolean ends, Object low, Object high) {}

  static Bounds of(IpcFile file, StructType schema, ReadOptions options) throws IOException {
    return new Bounds();
  }

  Pruner.Known known(int batch, String name) {
    return Pruner.Known.NOTHING;
  }

  Exact exact(FoundFile file, int batch, StructField column, long rows) {
    return null;
  }
}
