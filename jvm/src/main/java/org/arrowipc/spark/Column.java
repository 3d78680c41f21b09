package org.arrowipc.spark;

import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.spark.unsafe.Platform;

/** One array of a batch: its node and where its buffers lie in memory. An address of 0 is an absent buffer. */
final class Column {
  final Plan plan;
  final long length;
  /** Known once {@link #checkSizes} has run; before that -1 means that nobody has counted. */
  long nulls;
  final long[] address;
  final long[] size;
  /** The data buffers of views. */
  long[] dataAddress = {};
  long[] dataSize = {};
  final Column[] children;
  /** What indices refer to. */
  Dictionary dictionary;

  /** The values of a dictionary: those that a batch brought, and those of the deltas after it. */
  static final class Dictionary {
    final Column[] parts;
    final long length;
    final Map<Object, Vector> vectors = new IdentityHashMap<>();

    Dictionary(Column[] parts) {
      this.parts = parts;
      long sum = 0;
      for (Column part : parts) {
        sum += part.length;
      }
      length = sum;
    }
  }

  Column(Plan plan, long length, long nulls) {
    this.plan = plan;
    this.length = length;
    this.nulls = nulls;
    address = new long[plan.layout.buffers];
    size = new long[plan.layout.buffers];
    children = new Column[plan.children.size()];
  }

  /** The bitmap; 0 where nothing is null, or the layout has none. */
  long validity() { return plan.layout.hasValidity() ? address[0] : 0; }

  boolean isNull(long row) {
    long bits = validity();
    return bits != 0 && (Platform.getByte(null, bits + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  /** A signed word of a buffer. */
  long word(int buffer, int width, long at) {
    long place = address[buffer] + width * at;
    return switch (width) {
      case 1 -> Platform.getByte(null, place);
      case 2 -> Platform.getShort(null, place);
      case 4 -> Platform.getInt(null, place);
      default -> Platform.getLong(null, place);
    };
  }

  /** A dictionary index; one of 64 bits without a sign that no dictionary reaches is negative. */
  long index(long row) {
    long found = word(1, plan.width, row);
    boolean signed = ((org.apache.arrow.vector.types.pojo.ArrowType.Int) plan.type).getIsSigned();
    return signed || plan.width == 8 ? found : found & (1L << 8 * plan.width) - 1;
  }

  /** The first element of the list in a row, or byte of the text; of row {@code length} the end of the last. */
  long offset(long row) {
    return switch (plan.layout) {
      case FIXED_LIST -> row * plan.width;
      case VAR32, LIST32, LIST_VIEW32 -> address[1] == 0 ? 0 : word(1, 4, row);
      default -> address[1] == 0 ? 0 : word(1, 8, row);
    };
  }

  /** Elements of the list in a row, or bytes of a text. */
  long count(long row) {
    return switch (plan.layout) {
      case FIXED_LIST -> plan.width;
      case LIST_VIEW32 -> word(2, 4, row);
      case LIST_VIEW64 -> word(2, 8, row);
      default -> offset(row + 1) - offset(row);
    };
  }

  // -- sizes ---------------------------------------------------------------------------------------------------

  /** Whether every buffer holds what the length needs; after this only contents are untrusted. */
  void checkSizes() {
    switch (plan.layout) {
      case BITS -> need(1, (length + 7) >>> 3);
      case FIXED -> need(1, times(length, plan.width));
      case VIEW -> need(1, times(length, 16));
      case VAR32, LIST32 -> needOffsets(4);
      case VAR64, LIST64 -> needOffsets(8);
      case LIST_VIEW32, LIST_VIEW64 -> {
        need(1, times(length, plan.layout == Plan.Layout.LIST_VIEW32 ? 4 : 8));
        need(2, times(length, plan.layout == Plan.Layout.LIST_VIEW32 ? 4 : 8));
      }
      case SPARSE -> need(0, length);
      case DENSE -> {
        need(0, length);
        need(1, times(length, 4));
      }
      default -> { }
    }
    checkValidity();
    for (int i = 0; i < children.length; i++) {
      if (children[i] != null) {
        checkChild(i, children[i].length);
        children[i].checkSizes();
      }
    }
  }

  private void checkChild(int i, long found) {
    long needed = switch (plan.layout) {
      case STRUCT, SPARSE -> length;
      case FIXED_LIST -> times(length, plan.width);
      case RUN_END -> children[0].length;
      default -> 0;
    };
    if (found < needed || (plan.layout == Plan.Layout.RUN_END && found != needed)) {
      throw fault("a child has " + found + " elements, expected " + needed);
    }
    if (found > Integer.MAX_VALUE && plan.layout != Plan.Layout.STRUCT) {
      throw new ArrowIpcException.Unsupported("column " + plan.path + " has more than 2**31 - 1 elements");
    }
  }

  private void checkValidity() {
    if (!plan.layout.hasValidity()) {
      if (plan.layout == Plan.Layout.RUN_END && nulls > 0) {
        throw fault("run ends have no nulls, and the node states " + nulls);
      }
      nulls = plan.layout == Plan.Layout.NULL ? length : 0;
    } else if (nulls == 0 || (nulls < 0 && size[0] == 0)) {
      nulls = 0;
      address[0] = 0;
    } else {
      need(0, (length + 7) >>> 3);
      if (nulls < 0) {
        nulls = 0;
        for (long row = 0; row < length; row++) {
          nulls += isNull(row) ? 1 : 0;
        }
      }
    }
  }

  private void needOffsets(int width) {
    if (length == 0 && size[1] < width) {
      address[1] = 0; // writers before Arrow 1.0 leave out the single zero of an empty array
    } else {
      need(1, times(length + 1, width));
    }
  }

  private void need(int buffer, long bytes) {
    if (size[buffer] < bytes) {
      throw fault("buffer " + buffer + " has " + size[buffer] + " bytes, and " + length + " elements need " + bytes);
    }
  }

  private static long times(long one, long other) {
    long high = Math.multiplyHigh(one, other);
    return high != 0 || one * other < 0 ? Long.MAX_VALUE : one * other;
  }

  ArrowIpcException fault(String what) { return new ArrowIpcException.Format("column '" + plan.path + "': " + what); }
}
