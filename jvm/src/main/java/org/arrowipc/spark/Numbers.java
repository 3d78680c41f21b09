package org.arrowipc.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of Arrow types that Spark has under another form, made into Spark's one by one. */
final class Numbers {
  private Numbers() {}

  /** Integers without a sign, in the next wider type. */
  static final class Unsigned extends Vectors.Fixed {
    Unsigned(DataType type, Column column) { super(type, column, 0); }

    @Override public short getShort(int row) { return (short) (getByte(row) & 0xff); }
    @Override public int getInt(int row) { return super.getShort(row) & 0xffff; }
    @Override public long getLong(int row) { return super.getInt(row) & 0xffffffffL; }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      long bits = super.getLong(row);
      BigInteger value = BigInteger.valueOf(bits >>> 1).shiftLeft(1).or(BigInteger.valueOf(bits & 1));
      return Decimal.apply(new BigDecimal(value).setScale(scale), precision, scale);
    }
  }

  /** Floating-point numbers of 16 bits. */
  static final class Half extends Vectors.Fixed {
    Half(DataType type, Column column) { super(type, column, 0); }

    @Override
    public float getFloat(int row) {
      int bits = getShort(row);
      int sign = bits & 0x8000;
      int exponent = bits >> 10 & 31;
      int fraction = bits & 1023;
      if (exponent == 31) {
        return Float.intBitsToFloat(sign << 16 | 0x7f800000 | fraction << 13);
      }
      float found = exponent == 0 ? fraction * 0x1p-24f : Float.intBitsToFloat(exponent + 112 << 23 | fraction << 13);
      return sign == 0 ? found : -found;
    }
  }

  /** Bytes that are true unless they are 0. */
  static final class Bool8 extends Vectors.Fixed {
    Bool8(DataType type, Column column) { super(type, column, 0); }

    @Override public boolean getBoolean(int row) { return getByte(row) != 0; }
  }

  /** UUIDs as text. */
  static final class Uuid extends Vectors.Fixed {
    Uuid(DataType type, Column column) { super(type, column, 0); }

    @Override
    public UTF8String getUTF8String(int row) {
      long high = Long.reverseBytes(Platform.getLong(null, base + 16L * row));
      long low = Long.reverseBytes(Platform.getLong(null, base + 16L * row + 8));
      return UTF8String.fromString(new java.util.UUID(high, low).toString());
    }
  }

  /** Counts of one unit of time as counts of another: days of milliseconds, microseconds of seconds, ... */
  static final class Scaled extends Vectors.Fixed {
    private static final long DAY = 86_400_000_000_000L;
    private final long times;
    private final long per;
    /** Whether a count that is no whole number of the unit is an error. */
    private final boolean exact;
    /** Whether a count of a day and more is one. */
    private final boolean clock;

    Scaled(DataType type, Column column, long times, long per, boolean exact, boolean clock) {
      super(type, column, 0);
      this.times = times;
      this.per = per;
      this.exact = exact;
      this.clock = clock;
    }

    private long stored(int row) { return stride == 4 ? super.getInt(row) : super.getLong(row); }

    @Override public int getInt(int row) { return (int) getLong(row); }
    @Override public long getLong(int row) { return Math.floorDiv(stored(row), per) * times; }

    @Override
    void check(int from, int to) {
      long most = Long.MAX_VALUE / times;
      for (int row = from; row < to; row++) {
        long count = stored(row);
        boolean fine = !(exact && Math.floorMod(count, per) != 0) && (count <= most && count >= -most || per > 1);
        if (fine && clock) {
          fine = 0 <= getLong(row) && getLong(row) < DAY;
        }
        if (!fine && !isNullAt(row)) {
          throw refusal(count);
        }
      }
    }

    private ArrowIpcException refusal(long count) {
      String where = "column '" + column.plan().path + "' (" + column.plan().type + ") holds ";
      if (exact && Math.floorMod(count, per) != 0) {
        return new ArrowIpcException.Unsupported(where + count
            + " ns, which is not a whole number of microseconds, and Spark keeps no more; set the option "
            + "nanoseconds=\"truncate\" to drop the rest or nanoseconds=\"long\" to get a bigint");
      }
      if (clock) {
        double seconds = (double) count / per * times / 1e9;
        return new ArrowIpcException.Unsupported(where + String.format("%.6f", seconds)
            + " s, which is no time of day: Spark's TIME goes from 0 to less than 86,400 s; mend it where it is "
            + "written, or leave such batches out with the option mode=DROPMALFORMED");
      }
      return new ArrowIpcException.Unsupported(where + "a value that " + type.simpleString() + " cannot: " + count);
    }
  }

  /** Decimals of any width and scale, with Spark's precision and scale; or as text, where they have more digits. */
  static final class Decimals extends Vectors.Fixed {
    private final int scale;
    private final int precision;
    private final int stored;
    private final boolean small;
    private final long most;
    private final BigInteger bound;

    Decimals(DataType type, Column column) {
      super(type, column, 0);
      stored = ((org.apache.arrow.vector.types.pojo.ArrowType.Decimal) column.plan().type).getScale();
      scale = type instanceof DecimalType decimal ? decimal.scale() : stored;
      precision = type instanceof DecimalType decimal ? decimal.precision() : Integer.MAX_VALUE;
      small = precision <= Decimal.MAX_LONG_DIGITS() && scale == stored;
      most = small ? Decimal.POW_10()[precision] : 0;
      bound = precision <= DecimalType.MAX_PRECISION() ? BigInteger.TEN.pow(precision) : null;
    }

    private BigDecimal value(int row) {
      byte[] bytes = getBinary(row);
      for (int i = 0, j = bytes.length - 1; i < j; i++, j--) {
        byte other = bytes[i];
        bytes[i] = bytes[j];
        bytes[j] = other;
      }
      return new BigDecimal(new BigInteger(bytes), stored);
    }

    /** The unscaled value of one of at most 18 digits, which lie in the first 8 bytes. */
    @Override public long getLong(int row) { return stride == 4 ? super.getInt(row) : super.getLong(row); }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      if (small && scale == this.scale) {
        return Decimal.createUnsafe(getLong(row), precision, scale);
      }
      return Decimal.apply(value(row).setScale(scale), precision, scale);
    }

    @Override public UTF8String getUTF8String(int row) { return UTF8String.fromString(value(row).toString()); }

    @Override
    void check(int from, int to) {
      for (int row = from; bound != null && row < to; row++) {
        boolean fine;
        if (small) {
          long found = getLong(row);
          fine = -most < found && found < most;
          for (int word = 8; word < stride; word += 8) {
            fine &= Platform.getLong(null, base + stride * row + word) == found >> 63;
          }
        } else {
          fine = isNullAt(row) || value(row).setScale(scale).unscaledValue().abs().compareTo(bound) < 0;
        }
        if (!fine && !isNullAt(row)) {
          throw new ArrowIpcException.Unsupported("column '" + column.plan().path + "' holds " + value(row)
              + ", more than the digits of its type: " + type.simpleString());
        }
      }
    }
  }
}
