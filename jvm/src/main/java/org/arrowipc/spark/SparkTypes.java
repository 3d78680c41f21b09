package org.arrowipc.spark;

import java.util.*;
import org.apache.arrow.vector.types.FloatingPointPrecision;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.*;

/** Which Spark type each Arrow type becomes: the table of {@code arrowipc.spark.types}. */
public final class SparkTypes {
  /** Spark 4.0 has no TIME; there a time of day becomes a bigint of nanoseconds since midnight. */
  static final DataType TIME = time();

  private static final StructType DAY_TIME =
      new StructType().add("days", DataTypes.IntegerType).add("milliseconds", DataTypes.IntegerType);
  private static final StructType MONTH_DAY_NANO = new StructType()
      .add("months", DataTypes.IntegerType).add("days", DataTypes.IntegerType).add("nanoseconds", DataTypes.LongType);
  private static final int MAX_PRECISION = DecimalType.MAX_PRECISION();

  private SparkTypes() {}

  private static DataType time() {
    try {
      return DataType.fromJson("\"time(6)\"");
    } catch (RuntimeException error) {
      return DataTypes.LongType;
    }
  }

  /** Spark's schema for Arrow data, everything nullable; Declined where there is none, for Python to say why. */
  public static StructType schema(Schema schema, ReadOptions options) {
    checkUnique(schema.getFields(), "the schema");
    List<StructField> fields = new ArrayList<>();
    for (Field field : schema.getFields()) {
      try {
        fields.add(nullable(Plan.name(field), of(field, options, Plan.name(field))));
      } catch (ArrowIpcException.Unsupported error) {
        if (!options.unsupported.equals("drop")) {
          throw error;
        }
      }
    }
    return new StructType(fields.toArray(new StructField[0]));
  }

  static StructField nullable(String name, DataType type) { return DataTypes.createStructField(name, type, true); }

  private static void checkUnique(List<Field> fields, String what) {
    Set<String> seen = new HashSet<>();
    for (Field field : fields) {
      if (!seen.add(Plan.name(field))) {
        throw new ArrowIpcException.Usage(what + " holds the name '" + field.getName() + "' twice, and Spark finds "
            + "columns by name; rename one of them where the data is written, or choose others with the option columns");
      }
    }
  }

  /** The extension type that a field is to be read as; empty for none. */
  static String meaning(Field field, ReadOptions options) {
    if (!options.extensions) {
      return "";
    }
    String name = field.getMetadata().getOrDefault(ArrowType.ExtensionType.EXTENSION_METADATA_KEY_NAME, "");
    ArrowType stored = Plan.stored(field);
    return switch (name) {
      case "arrow.uuid" -> stored.equals(new ArrowType.FixedSizeBinary(16)) ? name : "";
      case "arrow.bool8" -> stored.equals(new ArrowType.Int(8, true)) ? name : "";
      case "arrow.parquet.variant", "arrow.timestamp_with_offset" ->
          throw new Declined("column " + field.getName() + " is " + name);
      default -> "";
    };
  }

  /** The Spark type of the values of one field. */
  static DataType of(Field field, ReadOptions options, String path) {
    ArrowType type = Plan.stored(field);
    String meaning = meaning(field, options);
    if (!meaning.isEmpty()) {
      return meaning.equals("arrow.uuid") ? DataTypes.StringType : DataTypes.BooleanType;
    }
    List<Field> children = field.getChildren();
    switch (type.getTypeID()) {
      case RunEndEncoded:
        return of(children.get(1), options, path);
      case List, LargeList, ListView, LargeListView, FixedSizeList:
        return new ArrayType(of(children.get(0), options, path + ".element"), true);
      case Struct:
        checkUnique(children, "column '" + path + "'");
        return struct(children, children.stream().map(Plan::name).toList(), options, path);
      case Union:
        return struct(children, unionNames((ArrowType.Union) type, children), options, path);
      case Map:
        List<Field> entries = children.get(0).getChildren();
        DataType key = of(entries.get(0), options, path + ".key");
        if (key instanceof MapType) {
          throw new ArrowIpcException.Unsupported(
              "column '" + path + "': Spark has no maps with keys of type " + Plan.stored(entries.get(0)));
        }
        return new MapType(key, of(entries.get(1), options, path + ".value"), true);
      default:
        return leaf(type, options, path);
    }
  }

  private static StructType struct(List<Field> fields, List<String> names, ReadOptions options, String path) {
    StructField[] found = new StructField[fields.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = nullable(names.get(i), of(fields.get(i), options, path + "." + names.get(i)));
    }
    return new StructType(found);
  }

  /** Names of the struct fields that stand for a union's members: theirs, made unique by the type code. */
  static List<String> unionNames(ArrowType.Union union, List<Field> members) {
    int[] codes = Plan.codes(union, members.size());
    List<String> names = members.stream().map(Plan::name).toList();
    List<String> found = new ArrayList<>();
    for (int i = 0; i < codes.length; i++) {
      String name = names.get(i);
      boolean unique = !name.isEmpty() && names.indexOf(name) == names.lastIndexOf(name);
      found.add(unique ? name : name + "_" + codes[i]);
    }
    return found;
  }

  /** The unit of a time, timestamp or duration; null for other types. */
  static TimeUnit unit(ArrowType type) {
    return switch (type.getTypeID()) {
      case Time -> ((ArrowType.Time) type).getUnit();
      case Timestamp -> ((ArrowType.Timestamp) type).getUnit();
      case Duration -> ((ArrowType.Duration) type).getUnit();
      default -> null;
    };
  }

  /** The Spark type of values without children. */
  static DataType leaf(ArrowType type, ReadOptions options, String path) {
    if (unit(type) == TimeUnit.NANOSECOND && options.nanoseconds.equals("long")) {
      return DataTypes.LongType;
    }
    return natural(type, options, path);
  }

  /** The same, where nanoseconds are not wanted as numbers. */
  static DataType natural(ArrowType type, ReadOptions options, String path) {
    return switch (type.getTypeID()) {
      case Null -> DataTypes.NullType;
      case Bool -> DataTypes.BooleanType;
      case Int -> integer((ArrowType.Int) type);
      case FloatingPoint -> ((ArrowType.FloatingPoint) type).getPrecision() == FloatingPointPrecision.DOUBLE
          ? DataTypes.DoubleType : DataTypes.FloatType;
      case Utf8, LargeUtf8, Utf8View -> DataTypes.StringType;
      case Binary, LargeBinary, BinaryView, FixedSizeBinary -> DataTypes.BinaryType;
      case Date -> DataTypes.DateType;
      case Time -> TIME;
      case Timestamp -> ((ArrowType.Timestamp) type).getTimezone() == null
          ? DataTypes.TimestampNTZType : DataTypes.TimestampType;
      case Duration -> DayTimeIntervalType.apply();
      case Interval -> switch (((ArrowType.Interval) type).getUnit()) {
        case YEAR_MONTH -> DataTypes.IntegerType;
        case DAY_TIME -> DAY_TIME;
        case MONTH_DAY_NANO -> MONTH_DAY_NANO;
      };
      case Decimal -> decimal((ArrowType.Decimal) type, options, path);
      default -> throw unsupported(type, path, "", "");
    };
  }

  private static DataType integer(ArrowType.Int type) {
    int width = type.getIsSigned() ? type.getBitWidth() : 2 * type.getBitWidth();
    return switch (width) {
      case 8 -> DataTypes.ByteType;
      case 16 -> DataTypes.ShortType;
      case 32 -> DataTypes.IntegerType;
      case 64 -> DataTypes.LongType;
      default -> new DecimalType(20, 0);
    };
  }

  /** Spark wants 0 <= scale <= precision <= 38; Arrow has 12E+2 (scale -2) and 0.0012 (scale 4, precision 2). */
  private static DataType decimal(ArrowType.Decimal type, ReadOptions options, String path) {
    long scale = Math.max(type.getScale(), 0);
    long precision = Math.max(type.getPrecision() + scale - type.getScale(), scale);
    if (precision <= MAX_PRECISION) {
      return new DecimalType((int) precision, (int) scale);
    }
    if (options.unsupported.equals("string")) {
      return DataTypes.StringType;
    }
    String why = " (its decimals have at most " + MAX_PRECISION + " digits)";
    throw unsupported(type, path, why, "unsupported=\"string\" reads it as text, ");
  }

  private static ArrowIpcException unsupported(ArrowType type, String path, String why, String help) {
    return new ArrowIpcException.Unsupported("column '" + path + "' has the Arrow type " + type
        + ", which Spark cannot hold" + why + "; option " + help + "unsupported=\"drop\" leaves the column out");
  }
}
