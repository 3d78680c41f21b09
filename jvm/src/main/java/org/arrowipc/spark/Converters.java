package org.arrowipc.spark;

import java.util.*;
import org.apache.arrow.vector.types.DateUnit;
import org.apache.arrow.vector.types.FloatingPointPrecision;
import org.apache.arrow.vector.types.IntervalUnit;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.Platform;

/** Plans once per schema how each column becomes the vector that Spark wants, and marks what is to be read. */
final class Converters {
  /** Makes the vector of one column of a batch. */
  interface Converter {
    Vector of(Column column);
  }

  private final ReadOptions options;
  private final Map<Plan.Whole, Map<DataType, Converter>> dictionaries = new HashMap<>();

  Converters(ReadOptions options) { this.options = options; }

  /** Fields by name, as Spark finds them: the only equal one, or else the only one that differs in case. */
  static final class ByName {
    private final Map<String, List<Plan>> equal = new HashMap<>();
    private final Map<String, List<Plan>> similar = new HashMap<>();
    private final String label;

    ByName(List<Plan> plans, List<String> names, String label) {
      this.label = label;
      for (int i = 0; i < names.size(); i++) {
        equal.computeIfAbsent(names.get(i), key -> new ArrayList<>()).add(plans.get(i));
        similar.computeIfAbsent(names.get(i).toLowerCase(Locale.ROOT), key -> new ArrayList<>()).add(plans.get(i));
      }
    }

    /** The field of a name; null for none, which is an error where the column is required, as several are always. */
    Plan find(String name, boolean required) {
      List<Plan> found = equal.getOrDefault(name, List.of());
      found = found.size() == 1 ? found : similar.getOrDefault(name.toLowerCase(Locale.ROOT), List.of());
      if (found.size() > 1) {
        throw new ArrowIpcException.Usage(
            label + " has " + found.size() + " columns named '" + name + "'; Spark finds columns by name");
      }
      if (found.isEmpty() && required) {
        throw new ArrowIpcException.Usage(
            label + " has no column '" + name + "', and the schema says that it has no nulls");
      }
      return found.isEmpty() ? null : found.get(0);
    }
  }

  /** How a column becomes values of a type. */
  Converter plan(Plan plan, DataType target, String path) {
    plan.want();
    if (plan.dictionary != null) {
      // Fields that share a dictionary share its vectors.
      Map<DataType, Converter> planned = dictionaries.computeIfAbsent(plan.dictionary, key -> new HashMap<>());
      Converter values = planned.containsKey(target) ? planned.get(target)
          : plan(plan.dictionary.columns.get(0), target, path);
      planned.put(target, values);
      return column -> new Vectors.Taken(
          dictionary(column.dictionary(), values, target), column.length(), indices(column), true);
    }
    if (target instanceof org.apache.spark.sql.types.UserDefinedType<?>) {
      throw new Declined("column " + path + " is wanted as " + target);
    }
    Plan.Layout layout = plan.layout;
    if (layout == Plan.Layout.NULL || (target instanceof NullType && layout != Plan.Layout.RUN_END)) {
      if (layout != Plan.Layout.NULL) {
        throw mismatch(plan, target, path);
      }
      return column -> new Vectors.Nulls(target, column.length());
    }
    if (layout == Plan.Layout.RUN_END) {
      Converter values = plan(plan.children.get(1), target, path);
      plan.children.get(0).want();
      return column -> {
        Vector found = values.of(column.children()[1]);
        found.check(0, found.length);
        return new Vectors.Taken(found, column.length(), new Runs(column.children()[0]), true);
      };
    }
    String meaning = SparkTypes.meaning(plan.field, options);
    if (meaning.equals("arrow.uuid") && target instanceof StringType) {
      return column -> new Numbers.Uuid(target, column);
    }
    if (meaning.equals("arrow.bool8") && target.equals(DataTypes.BooleanType)) {
      return column -> new Numbers.Bool8(target, column);
    }
    if (plan.type instanceof ArrowType.Map && target instanceof MapType map) {
      Plan entries = plan.children.get(0).want();
      Converter key = plan(entries.children.get(0), map.keyType(), path + ".key");
      Converter value = plan(entries.children.get(1), map.valueType(), path + ".value");
      boolean[] required = {true, !map.valueContainsNull()};
      return column -> {
        Column[] parts = column.children()[0].children();
        return new Vectors.Lists(target, column, new Vector[] {key.of(parts[0]), value.of(parts[1])}, required);
      };
    }
    return switch (layout) {
      case LIST32, LIST64, LIST_VIEW32, LIST_VIEW64, FIXED_LIST -> {
        if (plan.type instanceof ArrowType.Map || !(target instanceof ArrayType array)) {
          throw mismatch(plan, target, path);
        }
        Converter element = plan(plan.children.get(0), array.elementType(), path + ".element");
        boolean[] required = {!array.containsNull()};
        yield column -> new Vectors.Lists(target, column, new Vector[] {element.of(column.children()[0])}, required);
      }
      case STRUCT -> struct(plan, target, path);
      case SPARSE, DENSE -> union(plan, target, path);
      default -> leaf(plan, target, path);
    };
  }

  private Vector dictionary(Column.Dictionary dictionary, Converter values, DataType target) {
    return dictionary.vectors().computeIfAbsent(values, key -> {
      Vector[] parts = new Vector[dictionary.parts().length];
      for (int i = 0; i < parts.length; i++) {
        parts[i] = values.of(dictionary.parts()[i]);
        parts[i].check(0, parts[i].length);
      }
      return parts.length == 1 ? parts[0] : new Vectors.Joined(target, parts, dictionary.length());
    });
  }

  private static Vectors.Index indices(Column column) {
    if (column.plan().width == 4 && column.nulls() == 0) {
      long base = column.address()[1];
      return row -> Platform.getInt(null, base + 4L * row);
    }
    return row -> column.isNull(row) ? -1 : (int) column.index(row);
  }

  private Converter struct(Plan plan, DataType target, String path) {
    if (!(target instanceof StructType wanted)) {
      throw mismatch(plan, target, path);
    }
    List<String> names = plan.children.stream().map(child -> Plan.name(child.field)).toList();
    StructField[] fields = wanted.fields();
    Converter[] members = new Converter[fields.length];
    int[] places = new int[fields.length];
    boolean[] required = new boolean[fields.length];
    ByName children = new ByName(plan.children, names, "struct column '" + path + "'");
    for (int i = 0; i < fields.length; i++) {
      required[i] = !fields[i].nullable();
      Plan child = children.find(fields[i].name(), required[i]);
      places[i] = child == null ? -1 : plan.children.indexOf(child);
      DataType type = fields[i].dataType();
      members[i] = child == null ? column -> new Vectors.Nulls(type, column.length())
          : plan(child, type, path + "." + fields[i].name());
    }
    return column -> {
      Vector[] found = new Vector[members.length];
      for (int i = 0; i < found.length; i++) {
        found[i] = members[i].of(places[i] < 0 ? column : column.children()[places[i]]);
      }
      return new Vectors.Struct(target, column, found, required);
    };
  }

  private Converter union(Plan plan, DataType target, String path) {
    if (!(target instanceof StructType wanted)) {
      throw mismatch(plan, target, path);
    }
    ArrowType.Union type = (ArrowType.Union) plan.type;
    List<Field> fields = plan.children.stream().map(child -> child.field).toList();
    List<String> names = SparkTypes.unionNames(type, fields);
    int[] codes = Plan.codes(type, fields.size());
    int count = wanted.fields().length;
    int[] places = new int[count];
    Converter[] members = new Converter[count];
    ByName children = new ByName(plan.children, names, "union column '" + path + "'");
    for (int i = 0; i < count; i++) {
      StructField field = wanted.fields()[i];
      Plan child = children.find(field.name(), false);
      if (child == null || !field.nullable()) {
        throw new ArrowIpcException.Usage(child == null
            ? "union column '" + path + "' has no column '" + field.name() + "'"
            : "column '" + path + "." + field.name() + "' is a member of a union and can only be read as nullable");
      }
      places[i] = plan.children.indexOf(child);
      members[i] = plan(child, field.dataType(), path + "." + field.name());
    }
    boolean dense = plan.layout == Plan.Layout.DENSE;
    return column -> {
      Vector[] found = new Vector[count];
      long tags = column.address()[0];
      long offsets = dense ? column.address()[1] : 0;
      for (int i = 0; i < count; i++) {
        int code = codes[places[i]];
        Vectors.Index index = row -> Platform.getByte(null, tags + row) != code ? -1
            : dense ? Platform.getInt(null, offsets + 4L * row) : row;
        found[i] = new Vectors.Taken(members[i].of(column.children()[places[i]]), column.length(), index, false);
      }
      return new Vectors.Members(target, column.length(), found);
    };
  }

  // -- values without children ---------------------------------------------------------------------------------

  private Converter leaf(Plan plan, DataType target, String path) {
    ArrowType type = plan.type;
    if (type instanceof ArrowType.Decimal && target instanceof StringType) {
      return column -> new Numbers.Decimals(target, column);
    }
    boolean nanoseconds = SparkTypes.unit(type) == TimeUnit.NANOSECOND;
    if (nanoseconds && target instanceof LongType) {
      return column -> new Vectors.Fixed(target, column, 0);
    }
    DataType natural = SparkTypes.natural(type, options, path);
    Converter convert = own(plan, natural);
    if (natural.equals(target) || (natural instanceof StringType && target instanceof StringType)) {
      return convert;
    }
    return Cast.plan(convert, natural, target, plan, () -> mismatch(plan, target, path));
  }

  /** Whether values are times of day, which Spark's TIME, where there is one, lets be less than a day. */
  private static boolean clock(ArrowType type) {
    return type instanceof ArrowType.Time && !(SparkTypes.TIME instanceof LongType);
  }

  /** The vector of a type's own Spark type. */
  private Converter own(Plan plan, DataType target) {
    ArrowType type = plan.type;
    return switch (type.getTypeID()) {
      case Bool -> column -> new Vectors.Bits(target, column);
      case Int -> ((ArrowType.Int) type).getIsSigned()
          ? column -> new Vectors.Fixed(target, column, 0) : column -> new Numbers.Unsigned(target, column);
      case FloatingPoint -> ((ArrowType.FloatingPoint) type).getPrecision() == FloatingPointPrecision.HALF
          ? column -> new Numbers.Half(target, column) : column -> new Vectors.Fixed(target, column, 0);
      case Utf8, Binary, LargeUtf8, LargeBinary, Utf8View, BinaryView -> column -> new Vectors.Texts(target, column);
      case Date -> ((ArrowType.Date) type).getUnit() == DateUnit.DAY
          ? column -> new Vectors.Fixed(target, column, 0)
          : column -> new Numbers.Scaled(target, column, 1, 86_400_000, false, false);
      case Time, Timestamp, Duration -> time(type, target);
      case Interval -> interval((ArrowType.Interval) type, target);
      case Decimal -> column -> new Numbers.Decimals(target, column);
      default -> column -> new Vectors.Fixed(target, column, 0);
    };
  }

  private Converter time(ArrowType type, DataType target) {
    boolean exact = !options.nanoseconds.equals("truncate");
    // Spark's TIME counts nanoseconds, of which it keeps whole microseconds; the others count microseconds.
    long unit = type instanceof ArrowType.Time ? 1000 : 1;
    return switch (SparkTypes.unit(type)) {
      case SECOND -> column -> new Numbers.Scaled(target, column, 1_000_000 * unit, 1, false, clock(type));
      case MILLISECOND -> column -> new Numbers.Scaled(target, column, 1_000 * unit, 1, false, clock(type));
      case MICROSECOND -> unit > 1 ? column -> new Numbers.Scaled(target, column, unit, 1, false, clock(type))
          : column -> new Vectors.Fixed(target, column, 0);
      case NANOSECOND -> column -> new Numbers.Scaled(target, column, unit, 1000, exact, clock(type));
    };
  }

  private static Converter interval(ArrowType.Interval type, DataType target) {
    if (type.getUnit() == IntervalUnit.YEAR_MONTH) {
      return column -> new Vectors.Fixed(target, column, 0);
    }
    StructField[] fields = ((StructType) target).fields();
    return column -> {
      Vector[] members = new Vector[fields.length];
      for (int i = 0; i < members.length; i++) {
        members[i] = new Vectors.Fixed(fields[i].dataType(), column, 4 * i);
      }
      return new Vectors.Struct(target, column, members, new boolean[members.length]);
    };
  }

  private ArrowIpcException mismatch(Plan plan, DataType target, String path) {
    String natural = SparkTypes.of(plan.field, options, path).simpleString();
    return new ArrowIpcException.Usage("column '" + path + "' (" + plan.type + ") is read as " + natural
        + ", and the schema asks for " + target.simpleString() + "; ask for " + natural + " and cast in Spark");
  }

  /** The run that a row lies in: mostly that of the row before, or the next. */
  private static final class Runs implements Vectors.Index {
    private final Column ends;
    private int run;

    Runs(Column ends) { this.ends = ends; }

    private long end(int of) { return ends.word(1, ends.plan().width, of); }

    @Override
    public int of(int row) {
      if (row >= end(run) || (run > 0 && row < end(run - 1))) {
        int low = 0;
        for (int high = (int) ends.length() - 1; low < high;) {
          int middle = low + high >>> 1;
          if (row < end(middle)) {
            high = middle;
          } else {
            low = middle + 1;
          }
        }
        run = low;
      }
      return run;
    }
  }
}
