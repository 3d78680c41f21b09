package org.arrowipc.spark;

import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Which files and batches no row that passes all filters can be in; rows are never looked at, doubt keeps a batch. */
record Pruner(List<Filter> filters, StructType schema) implements Serializable {
  /** What is known of a column's rows: whether some hold a value, or null, and bounds of the values; null: unknown. */
  record Known(boolean values, boolean nulls, Object low, Object high) {
    static final Known NOTHING = new Known(true, true, null, null);
    static final Known MISSING = new Known(false, true, null, null);
  }

  /** Whether a file has to be opened, by its folders. */
  boolean keeps(FoundFile file) {
    return file.keys().isEmpty() || passes(name -> ofKey(file, name, Known.NOTHING));
  }

  /** The batches of an open file that have to be read. */
  List<Integer> kept(FoundFile file, IpcFile opened, ReadOptions options) throws IOException {
    List<Integer> all = java.util.stream.IntStream.range(0, opened.batches().size()).boxed().toList();
    if (filters.isEmpty()) {
      return all;
    }
    Bounds bounds = new Bounds(opened, schema, options);
    return all.stream().filter(number -> passes(name -> ofKey(file, name, bounds.known(number, name)))).toList();
  }

  private Known ofKey(FoundFile file, String name, Known otherwise) {
    if (Names.find(name, file.keys().keySet()) == null || Names.find(name, List.of(schema.fieldNames())) == null) {
      return otherwise;
    }
    StructField field = schema.apply(Names.find(name, List.of(schema.fieldNames())));
    Object value = comparable(Folders.typed(file, field));
    return value == null ? Known.MISSING : new Known(true, false, value, value);
  }

  private boolean passes(Function<String, Known> known) {
    return filters.stream().allMatch(filter -> may(filter, false, known));
  }

  /** Whether some row may pass a filter, or its opposite, in which nulls pass as little. */
  private static boolean may(Filter filter, boolean negated, Function<String, Known> known) {
    if (filter instanceof Not not) {
      return may(not.child(), !negated, known);
    } else if (filter instanceof And and) {
      boolean left = may(and.left(), negated, known);
      return negated ? left || may(and.right(), true, known) : left && may(and.right(), false, known);
    } else if (filter instanceof Or or) {
      boolean left = may(or.left(), negated, known);
      return negated ? left && may(or.right(), true, known) : left || may(or.right(), false, known);
    } else if (filter instanceof IsNull test) {
      return ofNull(known.apply(test.attribute()), !negated);
    } else if (filter instanceof IsNotNull test) {
      return ofNull(known.apply(test.attribute()), negated);
    } else if (filter instanceof EqualNullSafe test && test.value() == null) {
      return ofNull(known.apply(test.attribute()), !negated);
    } else if (filter instanceof EqualNullSafe test) {
      Known column = known.apply(test.attribute());
      return (negated && column.nulls) || equal(column, test.value(), negated);
    } else if (filter instanceof EqualTo test) {
      return equal(known.apply(test.attribute()), test.value(), negated);
    } else if (filter instanceof In test) {
      Known column = known.apply(test.attribute());
      List<Object> values = java.util.Arrays.stream(test.values()).filter(each -> each != null).toList();
      return negated
          ? values.stream().allMatch(value -> equal(column, value, true))
          : values.stream().anyMatch(value -> equal(column, value, false));
    } else if (filter instanceof GreaterThan test) {
      return above(known.apply(test.attribute()), test.value(), negated ? -1 : 1, !negated);
    } else if (filter instanceof GreaterThanOrEqual test) {
      return above(known.apply(test.attribute()), test.value(), negated ? -1 : 1, negated);
    } else if (filter instanceof LessThan test) {
      return above(known.apply(test.attribute()), test.value(), negated ? 1 : -1, !negated);
    } else if (filter instanceof LessThanOrEqual test) {
      return above(known.apply(test.attribute()), test.value(), negated ? 1 : -1, negated);
    } else if (filter instanceof StringStartsWith test && !negated) {
      Known column = known.apply(test.attribute());
      UTF8String prefix = UTF8String.fromString(test.value());
      boolean after = column.high instanceof UTF8String high && order(high, prefix) < 0;
      boolean before = column.low instanceof UTF8String low && order(low, prefix) > 0 && !low.startsWith(prefix);
      return column.values && !after && !before;
    }
    return true;
  }

  private static boolean ofNull(Known column, boolean wanted) {
    return wanted ? column.nulls : column.values;
  }

  /** Whether a value may be equal, or another one. */
  private static boolean equal(Known column, Object literal, boolean negated) {
    Object value = comparable(literal);
    Integer low = compare(column.low, value);
    Integer high = compare(column.high, value);
    if (negated) {
      return column.values && !(low != null && high != null && low == 0 && high == 0);
    }
    return column.values && (low == null || low <= 0) && (high == null || high >= 0);
  }

  /** Whether a value may lie above (side 1) or below (side -1) a literal, itself excluded where that is strict. */
  private static boolean above(Known column, Object literal, int side, boolean strict) {
    Integer found = compare(side > 0 ? column.high : column.low, comparable(literal));
    boolean nan = literal instanceof Number number && Double.isNaN(number.doubleValue());
    return column.values && (found == null || nan || (strict ? found * side > 0 : found * side >= 0));
  }

  private static int order(UTF8String one, UTF8String other) {
    return one.binaryCompare(other);
  }

  /** How two values compare; null where that is not known. */
  @SuppressWarnings("unchecked")
  static Integer compare(Object one, Object other) {
    if (one == null || other == null || one.getClass() != other.getClass()) {
      return null;
    }
    return one instanceof UTF8String text ? order(text, (UTF8String) other) : ((Comparable<Object>) one).compareTo(other);
  }

  /** A value of Spark's, as a literal or in a row, in the one form in which values compare; null: in none. */
  static Object comparable(Object value) {
    if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
      return ((Number) value).longValue();
    } else if (value instanceof Float || value instanceof Double) {
      return ((Number) value).doubleValue() + 0.0; // one zero
    } else if (value instanceof String text) {
      return UTF8String.fromString(text);
    } else if (value instanceof byte[] bytes) {
      return UTF8String.fromBytes(bytes);
    } else if (value instanceof Decimal decimal) {
      return decimal.toJavaBigDecimal();
    } else if (value instanceof BigDecimal decimal) {
      return decimal;
    } else if (value instanceof Date date) {
      return (long) DateTimeUtils.fromJavaDate(date);
    } else if (value instanceof LocalDate date) {
      return date.toEpochDay();
    } else if (value instanceof Timestamp time) {
      return DateTimeUtils.fromJavaTimestamp(time);
    } else if (value instanceof Instant time) {
      return DateTimeUtils.instantToMicros(time);
    } else if (value instanceof LocalDateTime time) {
      return DateTimeUtils.localDateTimeToMicros(time);
    }
    return value instanceof UTF8String || value instanceof Boolean ? value : null;
  }
}
