package org.arrowipc.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Files as tables of SQL, {@code SELECT * FROM arrowipc.`path`}: Spark asks only its own formats for files behind a
 * path, and a catalog for what follows its name. {@code spark.sql.catalog.arrowipc} names this class.
 */
public final class ArrowIpcCatalog implements TableCatalog {
  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Table loadTable(Identifier path) throws NoSuchTableException {
    if (path.namespace().length > 0) {
      throw new NoSuchTableException(path);
    }
    var options = Engine.map(Map.of("path", path.name()));
    var source = new ArrowIpcSource();
    return source.getTable(source.inferSchema(options), new Transform[0], options);
  }

  @Override
  public boolean tableExists(Identifier path) {
    return path.namespace().length == 0;
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public Table alterTable(Identifier path, TableChange... changes) {
    throw readOnly();
  }

  @Override
  public boolean dropTable(Identifier path) {
    throw readOnly();
  }

  @Override
  public void renameTable(Identifier path, Identifier other) {
    throw readOnly();
  }

  private static UnsupportedOperationException readOnly() {
    return new UnsupportedOperationException("arrowipc.`path` is for reading; make a table with CREATE TABLE ... USING");
  }
}
