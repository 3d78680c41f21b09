package org.arrowipc.spark;

import java.util.*;
import org.apache.arrow.vector.types.FloatingPointPrecision;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;

/** One field of a schema: its layout, and which nodes and buffers of a message are its own. */
final class Plan {
  /** The physical layouts of the columnar format: how many buffers each has, and whether the first is a bitmap. */
  enum Layout {
    NULL(0), BITS(2), FIXED(2), VAR32(3), VAR64(3), VIEW(2), LIST32(2), LIST64(2), LIST_VIEW32(3), LIST_VIEW64(3),
    FIXED_LIST(1), STRUCT(1), SPARSE(1), DENSE(2), RUN_END(0);

    final int buffers;

    Layout(int buffers) { this.buffers = buffers; }

    boolean hasValidity() { return this != NULL && this != SPARSE && this != DENSE && this != RUN_END; }
  }

  /** What one kind of message holds: that of the schema, or that of a dictionary. */
  static final class Whole {
    final List<Plan> columns = new ArrayList<>();
    int nodes;
    int buffers;
    int views;
    int unions;
  }

  final Field field;
  final String path;
  /** Of the values; of the indices where the field is dictionary-encoded. */
  final ArrowType type;
  final Layout layout;
  /** Bytes of a value, or elements of a list of fixed size. */
  final int width;
  final List<Plan> children = new ArrayList<>();
  /** The dictionary's own message; null where there is none. */
  final Whole dictionary;
  final int node;
  final int buffer;
  final int views;
  final int unions;
  /** Whether its buffers are read. */
  boolean wanted;

  /** The plan of all columns of a schema. */
  static Whole of(Iterable<Field> fields) {
    Whole whole = new Whole();
    Map<Long, Whole> dictionaries = new HashMap<>();
    for (Field field : fields) {
      whole.columns.add(new Plan(field, name(field), whole, dictionaries, false));
    }
    return whole;
  }

  private Plan(Field field, String path, Whole whole, Map<Long, Whole> dictionaries, boolean values) {
    this.field = field;
    this.path = path;
    boolean encoded = field.getDictionary() != null && !values;
    type = encoded ? field.getDictionary().getIndexType() : stored(field);
    layout = layoutOf(type, path);
    String narrow = field.getMetadata().get(Metadata.WIDTH());
    width = narrow == null || encoded ? widthOf(type, path) : Integer.parseInt(narrow);
    node = whole.nodes++;
    buffer = whole.buffers;
    views = whole.views;
    unions = whole.unions;
    whole.buffers += layout.buffers;
    whole.views += layout == Layout.VIEW ? 1 : 0;
    whole.unions += layout == Layout.SPARSE || layout == Layout.DENSE ? 1 : 0;
    if (encoded) {
      dictionary = dictionaries.computeIfAbsent(field.getDictionary().getId(), id -> new Whole());
      if (dictionary.columns.isEmpty()) {
        dictionary.columns.add(new Plan(field, path, dictionary, dictionaries, true));
      } else if (!same(dictionary.columns.get(0).field, field)) {
        throw new Declined("column " + path + " shares a dictionary with a column of another type");
      }
      return;
    }
    dictionary = null;
    for (Field child : field.getChildren()) {
      children.add(new Plan(child, path + "." + name(child), whole, dictionaries, false));
    }
    checkChildren();
  }

  /** Which dictionary a field refers to. */
  long dictionaryId() { return field.getDictionary().getId(); }

  Plan want() {
    wanted = true;
    return this;
  }

  static String name(Field field) { return field.getName() == null ? "" : field.getName(); }

  static ArrowType stored(Field field) {
    return field.getType() instanceof ArrowType.ExtensionType extension ? extension.storageType() : field.getType();
  }

  private static boolean same(Field one, Field other) {
    return stored(one).equals(stored(other)) && one.getChildren().equals(other.getChildren());
  }

  private void checkChildren() {
    int expected = switch (layout) {
      case LIST32, LIST64, LIST_VIEW32, LIST_VIEW64, FIXED_LIST -> 1;
      case RUN_END -> 2;
      case STRUCT, SPARSE, DENSE -> children.size();
      default -> 0;
    };
    boolean good = children.size() == expected;
    if (good && type instanceof ArrowType.Map) {
      Plan entries = children.get(0);
      good = entries.layout == Layout.STRUCT && entries.children.size() == 2 && entries.dictionary == null;
    } else if (good && layout == Layout.RUN_END) {
      Plan ends = children.get(0);
      good = ends.dictionary == null && ends.type instanceof ArrowType.Int of && of.getIsSigned() && ends.width > 1;
    } else if (good && type instanceof ArrowType.Union union) {
      int[] codes = codes(union, expected);
      good = codes.length == expected && java.util.Arrays.stream(codes).allMatch(code -> 0 <= code && code < 128)
          && java.util.Arrays.stream(codes).distinct().count() == expected;
    }
    if (!good) {
      throw new ArrowIpcException.Format("column " + path + ": children do not fit its type " + type);
    }
  }

  /** The type codes of a union's members, which are their numbers where the schema does not say. */
  static int[] codes(ArrowType.Union union, int members) {
    int[] codes = union.getTypeIds();
    return codes != null ? codes : java.util.stream.IntStream.range(0, members).toArray();
  }

  private static Layout layoutOf(ArrowType type, String path) {
    return switch (type.getTypeID()) {
      case Null -> Layout.NULL;
      case Bool -> Layout.BITS;
      case Int, FloatingPoint, Decimal, Date, Time, Timestamp, Duration, Interval, FixedSizeBinary -> Layout.FIXED;
      case Utf8, Binary -> Layout.VAR32;
      case LargeUtf8, LargeBinary -> Layout.VAR64;
      case Utf8View, BinaryView -> Layout.VIEW;
      case List, Map -> Layout.LIST32;
      case LargeList -> Layout.LIST64;
      case ListView -> Layout.LIST_VIEW32;
      case LargeListView -> Layout.LIST_VIEW64;
      case FixedSizeList -> Layout.FIXED_LIST;
      case Struct -> Layout.STRUCT;
      case Union -> ((ArrowType.Union) type).getMode() == org.apache.arrow.vector.types.UnionMode.Sparse
          ? Layout.SPARSE : Layout.DENSE;
      case RunEndEncoded -> Layout.RUN_END;
      default -> throw new Declined("column " + path + " has the type " + type);
    };
  }

  private static int widthOf(ArrowType type, String path) {
    int width = switch (type.getTypeID()) {
      case Int -> ((ArrowType.Int) type).getBitWidth() / 8;
      case FloatingPoint -> ((ArrowType.FloatingPoint) type).getPrecision() == FloatingPointPrecision.HALF ? 2
          : ((ArrowType.FloatingPoint) type).getPrecision() == FloatingPointPrecision.SINGLE ? 4 : 8;
      case Decimal -> ((ArrowType.Decimal) type).getBitWidth() / 8;
      case Date -> ((ArrowType.Date) type).getUnit() == org.apache.arrow.vector.types.DateUnit.DAY ? 4 : 8;
      case Time -> ((ArrowType.Time) type).getBitWidth() / 8;
      case Timestamp, Duration -> 8;
      case Interval -> switch (((ArrowType.Interval) type).getUnit()) {
        case YEAR_MONTH -> 4;
        case DAY_TIME -> 8;
        default -> 16;
      };
      case FixedSizeBinary -> ((ArrowType.FixedSizeBinary) type).getByteWidth();
      case FixedSizeList -> ((ArrowType.FixedSizeList) type).getListSize();
      default -> 0;
    };
    boolean good = switch (type.getTypeID()) {
      case Int -> List.of(8, 16, 32, 64).contains(((ArrowType.Int) type).getBitWidth());
      case Decimal -> List.of(128, 256).contains(((ArrowType.Decimal) type).getBitWidth())
          && ((ArrowType.Decimal) type).getPrecision() > 0;
      case Time -> ((ArrowType.Time) type).getBitWidth()
          == (((ArrowType.Time) type).getUnit().compareTo(TimeUnit.MICROSECOND) < 0 ? 32 : 64);
      default -> width >= 0;
    };
    if (!good) {
      throw new ArrowIpcException.Format("column " + path + ": there is no type " + type);
    }
    return width;
  }
}
