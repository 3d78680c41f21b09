package org.arrowipc.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** Takes from a query what need not be read: columns and fields of structs, batches, and aggregates that are known. */
final class ArrowIpcScanBuilder
    implements SupportsPushDownRequiredColumns, SupportsPushDownFilters, SupportsPushDownAggregates {
  private final StructType schema;
  private final SourceOptions options;
  private StructType wanted;
  private Filter[] filters = {};
  private Aggregates answer;

  ArrowIpcScanBuilder(StructType schema, SourceOptions options) {
    this.schema = schema;
    this.options = options;
    wanted = schema;
    if (options.columns() != null) {
      for (String name : schema.fieldNames()) {
        boolean added = options.metadata() && Names.find(name, List.of(Inference.METADATA.fieldNames())) != null;
        if (!added && Names.find(name, options.columns()) == null) {
          throw new ArrowIpcException.Usage("the schema has a column '" + name + "', and the option columns not");
        }
      }
    }
  }

  /** Where what is malformed is dropped, a batch is looked at whole: the rows are the same whatever is asked. */
  @Override
  public void pruneColumns(StructType required) {
    wanted = options.dropMalformed() ? schema : required;
  }

  /** All of them stay with Spark, too: a batch is read or left out as a whole. */
  @Override
  public Filter[] pushFilters(Filter[] given) {
    filters = options.pushFilters() ? given : filters;
    return given;
  }

  @Override
  public Filter[] pushedFilters() {
    return filters;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return pushAggregation(aggregation);
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    if (answer == null || !answer.answers(aggregation)) {
      answer = Aggregates.of(aggregation, schema, options);
    }
    return answer != null;
  }

  @Override
  public Scan build() {
    return answer != null ? answer : new ArrowIpcScan(wanted, schema, options, new ArrayList<>(List.of(filters)));
  }
}
