package org.arrowipc.spark;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.function.Supplier;
import org.apache.spark.sql.types.*;

/** Numbers of one type as those of another that the schema asks for, each of them checked. */
final class Cast extends Vectors.Elsewhere {
  private static final long MICROSECONDS_PER_DAY = 86_400_000_000L;
  private final Vector values;
  private final String path;

  private Cast(DataType target, Vector values, String path) {
    super(target, values.length);
    this.values = values;
    this.path = path;
  }

  /** Such vectors, where numbers of one type can become numbers of the other; else the error. */
  static Converters.Converter plan(
      Converters.Converter from, DataType natural, DataType target, Plan plan, Supplier<ArrowIpcException> error) {
    boolean possible = natural instanceof IntegralType && target instanceof NumericType
        || natural instanceof FloatType && target instanceof DoubleType
        || natural instanceof DateType && target instanceof TimestampNTZType
        || natural instanceof DecimalType && (target instanceof DecimalType || target instanceof IntegralType);
    if (!possible) {
      throw error.get();
    }
    return column -> new Cast(target, from.of(column), plan.path);
  }

  @Override int at(int row) { return row; }
  @Override Vector in(int row) { return values; }

  /** The value as a number with a point, of the natural types that are exact. */
  private BigDecimal exact(int row) {
    if (values.dataType() instanceof DecimalType decimal) {
      return values.getDecimal(row, decimal.precision(), decimal.scale()).toJavaBigDecimal();
    }
    return BigDecimal.valueOf(whole(row));
  }

  private long whole(int row) {
    DataType type = values.dataType();
    if (type.equals(DataTypes.LongType)) {
      return values.getLong(row);
    }
    if (type instanceof DecimalType) {
      return exact(row).longValue();
    }
    return type.equals(DataTypes.ByteType) ? values.getByte(row)
        : type.equals(DataTypes.ShortType) ? values.getShort(row) : values.getInt(row);
  }

  @Override public byte getByte(int row) { return (byte) whole(row); }
  @Override public short getShort(int row) { return (short) whole(row); }
  @Override public int getInt(int row) { return (int) whole(row); }

  @Override
  public long getLong(int row) {
    return values.dataType() instanceof DateType ? values.getInt(row) * MICROSECONDS_PER_DAY : whole(row);
  }

  @Override public float getFloat(int row) { return whole(row); }

  @Override
  public double getDouble(int row) {
    return values.dataType() instanceof FloatType ? values.getFloat(row) : whole(row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return Decimal.apply(exact(row).setScale(scale, RoundingMode.DOWN), precision, scale);
  }

  @Override
  void check(int from, int to) {
    values.check(from, to);
    for (int row = from; row < to; row++) {
      if (!values.isNullAt(row) && !fits(row)) {
        throw new ArrowIpcException.Unsupported(
            "column '" + path + "' holds a value that " + type.simpleString() + " cannot: " + exact(row));
      }
    }
  }

  private boolean fits(int row) {
    if (type instanceof DoubleType && values.dataType() instanceof FloatType) {
      return true;
    }
    if (type instanceof TimestampNTZType) {
      return Math.abs((long) values.getInt(row)) <= Long.MAX_VALUE / MICROSECONDS_PER_DAY;
    }
    if (type instanceof DecimalType decimal) {
      BigDecimal found = exact(row);
      BigDecimal cut = found.setScale(decimal.scale(), RoundingMode.DOWN);
      return cut.compareTo(found) == 0 && cut.precision() <= decimal.precision();
    }
    if (values.dataType() instanceof DecimalType) {
      BigDecimal found = exact(row);
      return found.stripTrailingZeros().scale() <= 0 && found.toBigInteger().bitLength() < bits();
    }
    int unused = type instanceof FloatType ? 64 - 25 : type instanceof DoubleType ? 64 - 54 : 64 - bits();
    long found = whole(row);
    return found << unused >> unused == found || (type instanceof FractionalType && found == 1L << 63 - unused);
  }

  private int bits() { return 8 * type.defaultSize(); }
}
