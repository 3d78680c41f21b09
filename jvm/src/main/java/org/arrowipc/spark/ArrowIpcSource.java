package org.arrowipc.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source {@code arrowipc}. Where this jar is on the class path Spark takes it for the name, whatever Python
 * registers; what it does not do itself (writing, streaming, what an {@link Engine} declines) the Python source does.
 */
public final class ArrowIpcSource implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return Engine.NAME;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap given) {
    var options = SourceOptions.withoutCatalog(given.asCaseSensitiveMap());
    return Engine.choose(
        options, () -> Inference.schema(SourceOptions.of(options)), () -> Engine.python().inferSchema(options));
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new ArrowIpcTable(schema, SourceOptions.withoutCatalog(properties));
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }
}
