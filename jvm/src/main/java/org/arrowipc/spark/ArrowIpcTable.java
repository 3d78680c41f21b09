package org.arrowipc.spark;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The files of some paths under one schema: read here or by Python, written by Python. */
final class ArrowIpcTable implements SupportsRead, SupportsWrite {
  private final StructType schema;
  private final CaseInsensitiveStringMap properties;

  ArrowIpcTable(StructType schema, CaseInsensitiveStringMap properties) {
    this.schema = schema;
    this.properties = properties;
  }

  @Override
  public String name() {
    return Engine.NAME;
  }

  @Override
  @SuppressWarnings("deprecation") // columns(), which replaces it, calls it
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(
        TableCapability.BATCH_READ,
        TableCapability.MICRO_BATCH_READ,
        TableCapability.BATCH_WRITE,
        TableCapability.STREAMING_WRITE,
        TableCapability.TRUNCATE);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    Map<String, String> all = new HashMap<>(properties);
    all.putAll(given);
    var options = SourceOptions.withoutCatalog(all);
    return Engine.choose(
        options,
        () -> new ArrowIpcScanBuilder(schema, SourceOptions.of(options)),
        () -> python(schema, options).newScanBuilder(options));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) python(schema, properties)).newWriteBuilder(info);
  }

  /** The table that Python makes of the same. */
  static SupportsRead python(StructType schema, Map<String, String> options) {
    Table table = Engine.python().getTable(schema, new Transform[0], options);
    return (SupportsRead) table;
  }
}
