package org.arrowipc.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** One schema for all files, {@code mergeSchema}: each column has the type that holds the values of all without loss. */
final class Unify {
  private static final int MOST_COLUMNS = 100_000;

  private Unify() {}

  static StructType merged(StructType one, StructType other, String prefix) {
    Map<String, StructField> merged = new LinkedHashMap<>();
    for (StructType struct : List.of(one, other)) {
      Map<String, String> own = new LinkedHashMap<>();
      for (StructField field : struct.fields()) {
        String lower = field.name().toLowerCase(Locale.ROOT);
        if (own.put(lower, field.name()) != null) {
          throw new ArrowIpcException.Usage("names that differ in case only do not merge: '" + field.name() + "'");
        }
        StructField known = merged.putIfAbsent(lower, field);
        if (known != null) {
          DataType type = merged(known.dataType(), field.dataType(), prefix + field.name());
          merged.put(lower, DataTypes.createStructField(known.name(), type, true));
        }
      }
    }
    if (merged.size() > MOST_COLUMNS) {
      throw new ArrowIpcException.Limit("there are more than " + MOST_COLUMNS + " columns together");
    }
    return DataTypes.createStructType(new ArrayList<>(merged.values()));
  }

  private static DataType merged(DataType one, DataType other, String path) {
    if (one.equals(other)) {
      return one;
    } else if (one instanceof StructType a && other instanceof StructType b) {
      return merged(a, b, path + ".");
    } else if (one instanceof ArrayType a && other instanceof ArrayType b) {
      return DataTypes.createArrayType(merged(a.elementType(), b.elementType(), path + ".element"));
    } else if (one instanceof MapType a && other instanceof MapType b) {
      DataType key = merged(a.keyType(), b.keyType(), path + ".key");
      return DataTypes.createMapType(key, merged(a.valueType(), b.valueType(), path + ".value"));
    }
    DataType found = wider(one, other);
    found = found == null ? wider(other, one) : found;
    if (found == null) {
      throw new ArrowIpcException.Usage(
          "column '" + path + "' is " + one.simpleString() + " in one and " + other.simpleString()
              + " in another, and no type holds the values of both without loss; give a schema that says what is wanted");
    }
    return found;
  }

  /** The type that holds the values of both, where the first is the narrower kind; null: there is none. */
  private static DataType wider(DataType one, DataType other) {
    int digits = digits(one);
    if (one instanceof NullType || (one instanceof FloatType && other instanceof DoubleType)) {
      return other;
    } else if (one instanceof DecimalType a && other instanceof DecimalType b) {
      int scale = Math.max(a.scale(), b.scale());
      int precision = Math.max(a.precision() - a.scale(), b.precision() - b.scale()) + scale;
      return precision <= DecimalType.MAX_PRECISION() ? DataTypes.createDecimalType(precision, scale) : null;
    } else if (digits > 0 && other instanceof DecimalType) {
      return wider(DataTypes.createDecimalType(digits, 0), other);
    }
    int exact = other instanceof FloatType ? 5 : other instanceof DoubleType ? 10 : digits(other);
    return digits > 0 && digits <= exact ? other : null;
  }

  /** Decimal digits of whole numbers. */
  private static int digits(DataType type) {
    return type instanceof ByteType
        ? 3
        : type instanceof ShortType ? 5 : type instanceof IntegerType ? 10 : type instanceof LongType ? 20 : 0;
  }
}
