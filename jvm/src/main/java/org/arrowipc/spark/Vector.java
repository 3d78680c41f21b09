package org.arrowipc.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column as Spark reads it: views of a batch's memory, which is the reader's and lasts until its next batch.
 *
 * <p>Vectors convert value by value, as Spark asks for them. What Spark cannot hold is found before that, by
 * {@link #check}, which asks for all.
 */
abstract class Vector extends ColumnVector {
  final int length;
  private int nulls = -1;

  Vector(DataType type, long length) {
    super(type);
    this.length = (int) Math.min(length, Integer.MAX_VALUE);
  }

  /** Raise for the first value of some rows that Spark cannot hold. */
  void check(int from, int to) {}

  @Override public void close() {}
  @Override public boolean hasNull() { return numNulls() > 0; }

  @Override
  public int numNulls() {
    if (nulls < 0) {
      nulls = countNulls();
    }
    return nulls;
  }

  int countNulls() {
    int count = 0;
    for (int row = 0; row < length; row++) {
      count += isNullAt(row) ? 1 : 0;
    }
    return count;
  }

  private UnsupportedOperationException not(String what) {
    return new UnsupportedOperationException(type.simpleString() + " is not " + what);
  }

  @Override public boolean getBoolean(int row) { throw not("boolean"); }
  @Override public byte getByte(int row) { throw not("tinyint"); }
  @Override public short getShort(int row) { throw not("smallint"); }
  @Override public int getInt(int row) { throw not("int"); }
  @Override public long getLong(int row) { throw not("bigint"); }
  @Override public float getFloat(int row) { throw not("float"); }
  @Override public double getDouble(int row) { throw not("double"); }
  @Override public Decimal getDecimal(int row, int precision, int scale) { throw not("decimal"); }
  @Override public UTF8String getUTF8String(int row) { throw not("string"); }
  @Override public byte[] getBinary(int row) { throw not("binary"); }
  @Override public ColumnarArray getArray(int row) { throw not("array"); }
  @Override public ColumnarMap getMap(int row) { throw not("map"); }
  @Override public ColumnVector getChild(int ordinal) { throw not("struct"); }
}
