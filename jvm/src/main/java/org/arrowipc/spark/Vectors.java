package org.arrowipc.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** The layouts that Spark reads where they lie: numbers, bits, texts, lists, structs, and rows of other vectors. */
final class Vectors {
  private Vectors() {}

  /** What has a bitmap of its own. */
  abstract static class Leaf extends Vector {
    final Column column;
    private final long validity;

    Leaf(DataType type, Column column) {
      super(type, column.length());
      this.column = column;
      validity = column.validity();
    }

    @Override
    public final boolean isNullAt(int row) {
      return validity != 0 && (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0;
    }

    @Override final int countNulls() { return (int) column.nulls(); }
  }

  /** Values of one width, or one member of values that have several, in the byte order and form of the JVM's own. */
  static class Fixed extends Leaf {
    final long base;
    final long stride;

    Fixed(DataType type, Column column, int member) {
      super(type, column);
      base = column.address()[1] + member;
      stride = column.plan().width;
    }

    @Override public byte getByte(int row) { return Platform.getByte(null, base + stride * row); }
    @Override public short getShort(int row) { return Platform.getShort(null, base + stride * row); }
    @Override public int getInt(int row) { return Platform.getInt(null, base + stride * row); }
    @Override public long getLong(int row) { return Platform.getLong(null, base + stride * row); }
    @Override public float getFloat(int row) { return Platform.getFloat(null, base + stride * row); }
    @Override public double getDouble(int row) { return Platform.getDouble(null, base + stride * row); }
    @Override public byte[] getBinary(int row) { return bytes(base + stride * row, (int) stride); }
  }

  static final class Bits extends Leaf {
    Bits(DataType type, Column column) { super(type, column); }

    @Override
    public boolean getBoolean(int row) {
      return (Platform.getByte(null, column.address()[1] + (row >> 3)) >> (row & 7) & 1) != 0;
    }
  }

  /** Text and binary, by offsets or as views. */
  static final class Texts extends Leaf {
    private final Plan.Layout layout;
    private final long offsets;
    private final long data;

    Texts(DataType type, Column column) {
      super(type, column);
      layout = column.plan().layout;
      offsets = column.address()[1];
      data = layout == Plan.Layout.VIEW ? 0 : column.address()[2];
    }

    private int size(int row) {
      return switch (layout) {
        case VAR32 -> Platform.getInt(null, offsets + 4L * row + 4) - Platform.getInt(null, offsets + 4L * row);
        case VAR64 -> (int) Math.min(column.count(row), Integer.MAX_VALUE);
        default -> Platform.getInt(null, offsets + 16L * row);
      };
    }

    private long start(int row, int size) {
      return switch (layout) {
        case VAR32 -> data + Platform.getInt(null, offsets + 4L * row);
        case VAR64 -> data + Platform.getLong(null, offsets + 8L * row);
        default -> {
          long view = offsets + 16L * row;
          yield size <= 12 ? view + 4
              : column.dataAddress()[Platform.getInt(null, view + 8)] + Platform.getInt(null, view + 12);
        }
      };
    }

    @Override
    public UTF8String getUTF8String(int row) {
      int size = size(row);
      return UTF8String.fromAddress(null, start(row, size), size);
    }

    @Override
    public byte[] getBinary(int row) {
      int size = size(row);
      return bytes(start(row, size), size);
    }

    @Override
    void check(int from, int to) {
      for (int row = from; layout == Plan.Layout.VAR64 && row < to; row++) {
        if (column.count(row) > Integer.MAX_VALUE && !isNullAt(row)) {
          throw new ArrowIpcException.Unsupported(
              "column '" + column.plan().path + "': a value is longer than Spark's 2 GiB");
        }
      }
    }
  }

  static byte[] bytes(long address, int size) {
    byte[] found = new byte[size];
    Platform.copyMemory(null, address, found, Platform.BYTE_ARRAY_OFFSET, size);
    return found;
  }

  /** Lists and maps of any layout; {@code members} are the elements, or the keys and the values. */
  static final class Lists extends Leaf {
    private final Vector[] members;
    private final boolean[] required;

    Lists(DataType type, Column column, Vector[] members, boolean[] required) {
      super(type, column);
      this.members = members;
      this.required = required;
    }

    @Override
    public ColumnarArray getArray(int row) {
      return new ColumnarArray(members[0], (int) column.offset(row), (int) column.count(row));
    }

    @Override
    public ColumnarMap getMap(int row) {
      return new ColumnarMap(members[0], members[1], (int) column.offset(row), (int) column.count(row));
    }

    @Override public ColumnVector getChild(int ordinal) { return members[ordinal]; }

    @Override
    void check(int from, int to) {
      long first = Long.MAX_VALUE;
      long last = 0;
      if (column.plan().layout == Plan.Layout.LIST_VIEW32 || column.plan().layout == Plan.Layout.LIST_VIEW64) {
        for (int row = from; row < to; row++) {
          if (!isNullAt(row) && column.count(row) > 0) {
            first = Math.min(first, column.offset(row));
            last = Math.max(last, column.offset(row) + column.count(row));
          }
        }
      } else {
        first = column.offset(from);
        last = column.offset(to);
      }
      for (int i = 0; first < last && i < members.length; i++) {
        members[i].check((int) first, (int) last);
        if (required[i]) {
          refuseNulls(members[i], (int) first, (int) last, column.plan().path);
        }
      }
    }
  }

  static void refuseNulls(Vector vector, int from, int to, String path) {
    for (int row = from; row < to; row++) {
      if (vector.isNullAt(row)) {
        throw new ArrowIpcException.Usage("column '" + path + "' holds nulls, and the schema says that it has none");
      }
    }
  }

  static final class Struct extends Leaf {
    private final Vector[] members;
    private final boolean[] required;

    Struct(DataType type, Column column, Vector[] members, boolean[] required) {
      super(type, column);
      this.members = members;
      this.required = required;
    }

    @Override public ColumnVector getChild(int ordinal) { return members[ordinal]; }

    @Override
    void check(int from, int to) {
      for (int i = 0; i < members.length; i++) {
        members[i].check(from, to);
        for (int row = from; required[i] && row < to; row++) {
          if (!isNullAt(row)) {
            refuseNulls(members[i], row, row + 1, column.plan().path);
          }
        }
      }
    }
  }

  /** A union: never null itself, one member of each row is not. */
  static final class Members extends Vector {
    private final Vector[] members;

    Members(DataType type, long length, Vector[] members) {
      super(type, length);
      this.members = members;
    }

    @Override public boolean isNullAt(int row) { return false; }
    @Override public ColumnVector getChild(int ordinal) { return members[ordinal]; }

    @Override
    void check(int from, int to) {
      for (Vector member : members) {
        member.check(from, to);
      }
    }
  }

  /** Nothing but nulls: of the null type, or a column that the file has not. */
  static final class Nulls extends Vector {
    Nulls(DataType type, long length) { super(type, length); }

    @Override public boolean isNullAt(int row) { return true; }
    @Override int countNulls() { return length; }

    @Override
    public ColumnVector getChild(int ordinal) {
      DataType child = ((org.apache.spark.sql.types.StructType) type).fields()[ordinal].dataType();
      return new Nulls(child, length);
    }
  }

  /** Rows of other vectors: where a row is, is found anew each time it is asked for. */
  abstract static class Elsewhere extends Vector {
    Elsewhere(DataType type, long length) { super(type, length); }

    /** In which row of {@link #in} a row is; negative: it is null. */
    abstract int at(int row);

    abstract Vector in(int row);

    @Override
    public boolean isNullAt(int row) {
      int at = at(row);
      return at < 0 || in(row).isNullAt(at);
    }

    @Override public boolean getBoolean(int row) { return in(row).getBoolean(at(row)); }
    @Override public byte getByte(int row) { return in(row).getByte(at(row)); }
    @Override public short getShort(int row) { return in(row).getShort(at(row)); }
    @Override public int getInt(int row) { return in(row).getInt(at(row)); }
    @Override public long getLong(int row) { return in(row).getLong(at(row)); }
    @Override public float getFloat(int row) { return in(row).getFloat(at(row)); }
    @Override public double getDouble(int row) { return in(row).getDouble(at(row)); }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      return in(row).getDecimal(at(row), precision, scale);
    }

    @Override public UTF8String getUTF8String(int row) { return in(row).getUTF8String(at(row)); }
    @Override public byte[] getBinary(int row) { return in(row).getBinary(at(row)); }
    @Override public ColumnarArray getArray(int row) { return in(row).getArray(at(row)); }
    @Override public ColumnarMap getMap(int row) { return in(row).getMap(at(row)); }
  }

  /** Where the row of another vector is that a row stands for; negative: it is null. */
  interface Index {
    int of(int row);
  }

  /** Rows that stand for rows of one other vector: of a dictionary, of runs, of a member of a union. */
  static final class Taken extends Elsewhere {
    private final Vector values;
    private final Index index;
    /** Whether all values have been checked; else those that a row stands for are still to be. */
    private final boolean whole;

    Taken(Vector values, long length, Index index, boolean whole) {
      super(values.dataType(), length);
      this.values = values;
      this.index = index;
      this.whole = whole;
    }

    @Override int at(int row) { return index.of(row); }
    @Override Vector in(int row) { return values; }

    @Override
    public ColumnVector getChild(int ordinal) {
      return new Taken((Vector) values.getChild(ordinal), length, index, whole);
    }

    @Override
    void check(int from, int to) {
      for (int row = from; !whole && row < to; row++) {
        int at = at(row);
        if (at >= 0) {
          values.check(at, at + 1);
        }
      }
    }
  }

  /** One vector behind the other: a dictionary and its deltas. */
  static final class Joined extends Elsewhere {
    private final Vector[] parts;
    private final int[] starts;

    Joined(DataType type, Vector[] parts, long length) {
      super(type, length);
      this.parts = parts;
      starts = new int[parts.length];
      for (int i = 1; i < parts.length; i++) {
        starts[i] = starts[i - 1] + parts[i - 1].length;
      }
    }

    private int part(int row) {
      // Of parts that start alike all but the last are empty.
      int low = 0;
      for (int high = starts.length - 1; low < high;) {
        int middle = low + high + 1 >>> 1;
        if (starts[middle] <= row) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      return low;
    }

    @Override int at(int row) { return row - starts[part(row)]; }
    @Override Vector in(int row) { return parts[part(row)]; }

    @Override
    public ColumnVector getChild(int ordinal) {
      Vector[] children = new Vector[parts.length];
      for (int i = 0; i < parts.length; i++) {
        children[i] = (Vector) parts[i].getChild(ordinal);
      }
      Joined found = new Joined(children[0].dataType(), children, length);
      System.arraycopy(starts, 0, found.starts, 0, starts.length);
      return found;
    }
  }
}
