package org.arrowipc.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** The answer to {@code COUNT(*)}, {@code MIN} and {@code MAX} without a task, where headers and statistics give it. */
final class Aggregates implements LocalScan {
  /** One of the questions: rows, values that are not null, or an end of the values of a column. */
  private record Question(char kind, StructField column) {}

  /** How many values there are, -1: not known; where {@code ends}, the least and the greatest as rows hold them. */
  private record Exact(long values, boolean ends, Object low, Object high) {
    static final Exact UNKNOWN = new Exact(-1, false, null, null);
  }

  private final List<Question> questions;
  private final String asked;
  private final StructType schema;
  private final InternalRow row;
  private final String said;

  private Aggregates(List<Question> questions, Aggregation aggregation, Object[] values, String said) {
    this.questions = questions;
    this.said = said;
    asked = text(aggregation);
    StructField[] fields = new StructField[values.length];
    for (int at = 0; at < fields.length; at++) {
      Question question = questions.get(at);
      boolean counts = "*n".indexOf(question.kind) >= 0;
      var type = counts ? DataTypes.LongType : question.column.dataType();
      fields[at] = DataTypes.createStructField(aggregation.aggregateExpressions()[at].describe(), type, !counts);
    }
    schema = DataTypes.createStructType(fields);
    row = new GenericInternalRow(values);
  }

  /** The answer to some questions; null: rows have to be read. */
  static Aggregates of(Aggregation aggregation, StructType schema, SourceOptions options) {
    List<Question> questions = new ArrayList<>();
    for (AggregateFunc each : aggregation.aggregateExpressions()) {
      Question question = question(each, schema);
      if (question == null) {
        return null;
      }
      questions.add(question);
    }
    if (aggregation.groupByExpressions().length > 0 || options.dropMalformed()) {
      return null;
    }
    try {
      Configuration configuration = Session.configuration();
      List<FoundFile> files = new Listing(options, configuration).files();
      if (files.size() > options.planningThreshold()) {
        return null;
      }
      Object[] values = new Object[questions.size()];
      FileColumns columns = new FileColumns(schema, options);
      Set<Schema> fitting = java.util.concurrent.ConcurrentHashMap.newKeySet();
      List<Object[]> found = Look.each(files, file -> Look.in(file, options, configuration, opened -> {
        if (fitting.add(opened.schema())) {
          new BatchReader(opened, columns.ofFile(file), options.read(), null).close();
        }
        return ofFile(file, opened, questions, schema, options);
      }));
      for (Object[] each : found) {
        if (each.length == 0) {
          return null;
        }
        for (int at = 0; at < values.length; at++) {
          values[at] = merged(questions.get(at).kind, values[at], each[at]);
        }
      }
      for (int at = 0; at < values.length; at++) {
        boolean counts = "*n".indexOf(questions.get(at).kind) >= 0;
        values[at] = counts && values[at] == null ? (Object) 0L : values[at];
      }
      return new Aggregates(questions, aggregation, values, "of " + found.size() + " files");
    } catch (ArrowIpcException | Declined reason) {
      return null; // who reads the rows says it
    }
  }

  private static Question question(AggregateFunc asked, StructType schema) {
    if (asked instanceof CountStar) {
      return new Question('*', null);
    }
    boolean count = asked instanceof Count counted && !counted.isDistinct();
    if (!(count || asked instanceof Min || asked instanceof Max)) {
      return null;
    }
    Expression column = asked.children()[0];
    if (!(column instanceof NamedReference name) || name.fieldNames().length != 1) {
      return null;
    }
    String found = Names.find(name.fieldNames()[0], List.of(schema.fieldNames()));
    char kind = count ? 'n' : asked instanceof Min ? '<' : '>';
    return found == null ? null : new Question(kind, schema.apply(found));
  }

  /** What one file answers; nothing where its headers and statistics do not prove it. */
  private static Object[] ofFile(
      FoundFile file, IpcFile opened, List<Question> questions, StructType schema, SourceOptions options)
      throws java.io.IOException {
    Object[] values = new Object[questions.size()];
    Bounds bounds = null;
    for (int batch = 0; batch < opened.batches().size(); batch++) {
      long rows = opened.rows(batch);
      for (int at = 0; at < values.length; at++) {
        Question question = questions.get(at);
        Object value = rows;
        if (question.kind != '*' && rows > 0) {
          bounds = bounds == null ? new Bounds(opened, schema, options.read()) : bounds;
          Exact exact = exact(bounds, file, batch, question.column, rows);
          if (exact == null || (question.kind == 'n' ? exact.values() < 0 : !exact.ends())) {
            return new Object[0];
          }
          value = question.kind == 'n' ? (Object) exact.values() : question.kind == '<' ? exact.low() : exact.high();
        }
        values[at] = merged(question.kind, values[at], question.kind == '*' || rows > 0 ? value : null);
      }
    }
    return values;
  }

  /** What is known for sure of a column in a batch of some rows. */
  private static Exact exact(Bounds bounds, FoundFile in, int batch, StructField field, long rows) {
    if (Names.find(field.name(), in.keys().keySet()) != null) {
      Object value = Folders.typed(in, field);
      return new Exact(value == null ? 0 : rows, true, value, value);
    }
    if (Names.find(field.name(), List.of(Inference.METADATA.fieldNames())) != null) {
      return Exact.UNKNOWN;
    }
    Bounds.Column column = bounds.column(field.name());
    if (column == null) {
      return bounds.missing(field.name()) ? new Exact(0, true, null, null) : Exact.UNKNOWN;
    }
    JsonNode all = bounds.statistics(batch);
    JsonNode one = all.path("columns").path(column.path());
    if (!Bounds.sane(all, one) || !one.has("nulls")) {
      return Exact.UNKNOWN;
    }
    long values = rows - one.path("nulls").asLong();
    boolean odd = one.path("nan").asBoolean(false) || !one.path("min_exact").asBoolean(true);
    odd |= column.kind() instanceof ArrowType.Timestamp time && time.getUnit() == TimeUnit.NANOSECOND && !column.counts();
    Object low = row(Bounds.value(column, one, "min"), field.dataType());
    Object high = row(Bounds.value(column, one, "max"), field.dataType());
    odd |= !one.path("max_exact").asBoolean(true) || low == null || high == null;
    boolean ends = !odd && order(low, high) <= 0;
    return new Exact(values, values == 0 || ends, values == 0 ? null : low, values == 0 ? null : high);
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

  private static int order(Object one, Object other) {
    return (Integer) Pruner.compare(comparable(one), comparable(other)).get();
  }

  private static Object comparable(Object value) {
    return value instanceof Decimal decimal ? decimal.toJavaBigDecimal() : Pruner.comparable(value);
  }

  private static Object merged(char kind, Object one, Object other) {
    if (one == null || other == null) {
      return one == null ? other : one;
    } else if (kind == '*' || kind == 'n') {
      return (Long) one + (Long) other;
    }
    int order = order(one, other);
    return (kind == '<') == (order <= 0) ? one : other;
  }

  boolean answers(Aggregation aggregation) {
    return asked.equals(text(aggregation));
  }

  private static String text(Aggregation aggregation) {
    return Arrays.toString(aggregation.aggregateExpressions()) + Arrays.toString(aggregation.groupByExpressions());
  }

  @Override
  public InternalRow[] rows() {
    return new InternalRow[] {row};
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "arrowipc, aggregates " + asked + " from headers and statistics " + said;
  }
}
