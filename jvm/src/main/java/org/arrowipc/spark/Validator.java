package org.arrowipc.spark;

import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.spark.unsafe.Platform;

/** Proves that what the values of a batch refer to is there: the rules of {@code validate="full"}. */
final class Validator {
  private static final int INLINE = 12;

  private Validator() {}

  /** Prove a column and all below it; sizes are known to be right. */
  static void check(Column column) {
    switch (column.plan().layout) {
      case FIXED -> {
        if (column.plan().dictionary != null) {
          checkIndices(column);
        }
      }
      case VAR32, VAR64 -> {
        checkOffsets(column, column.size()[2]);
        if (isText(column)) {
          checkText(column);
        }
      }
      case VIEW -> checkViews(column);
      case LIST32, LIST64 -> {
        checkOffsets(column, column.children()[0].length());
        if (column.plan().type instanceof ArrowType.Map) {
          checkEntries(column.children()[0]);
        }
      }
      case LIST_VIEW32, LIST_VIEW64 -> checkListViews(column, column.children()[0].length());
      case SPARSE, DENSE -> checkUnion(column);
      case RUN_END -> checkRunEnds(column);
      default -> { }
    }
    for (Column child : column.children()) {
      if (child != null) {
        check(child);
      }
    }
  }

  private static void checkIndices(Column column) {
    long limit = column.dictionary().length();
    for (long row = 0; row < column.length(); row++) {
      long index = column.index(row);
      if ((index < 0 || index >= limit) && !column.isNull(row)) {
        throw column.fault("row " + row + " has dictionary index " + index + ", and there are " + limit + " values");
      }
    }
  }

  /** Offsets rise from at least 0 to at most {@code limit}. */
  private static void checkOffsets(Column column, long limit) {
    long base = column.address()[1];
    if (base == 0) {
      return; // an empty array may leave out its one offset
    }
    long bad = 0;
    boolean wide = column.plan().layout == Plan.Layout.VAR64 || column.plan().layout == Plan.Layout.LIST64;
    long length = column.length();
    if (wide) {
      long before = Platform.getLong(null, base);
      bad = before;
      for (long i = 1; i <= length; i++) {
        long each = Platform.getLong(null, base + 8 * i);
        bad |= each | each - before;
        before = each;
      }
    } else {
      int wrong = Platform.getInt(null, base);
      int before = wrong;
      for (long i = 1; i <= length; i++) {
        int each = Platform.getInt(null, base + 4 * i);
        wrong |= each | each - before;
        before = each;
      }
      bad = wrong;
    }
    if (bad < 0 || column.offset(length) > limit) {
      throw column.fault("its offsets do not rise from 0 to " + limit);
    }
  }

  private static void checkEntries(Column entries) {
    Column key = entries.children()[0];
    if (entries.nulls() > 0 || (key != null && key.nulls() > 0)) {
      throw entries.fault("entries and keys of maps have no nulls");
    }
  }

  private static void checkListViews(Column column, long limit) {
    for (long row = 0; row < column.length(); row++) {
      long offset = column.offset(row);
      long count = column.count(row);
      if (offset < 0 || offset > limit || count < 0 || count > limit - offset) {
        throw column.fault("row " + row + " is a list of " + count + " elements from " + offset + ", of " + limit);
      }
    }
  }

  private static void checkUnion(Column column) {
    long[] last = new long[128];
    java.util.Arrays.fill(last, Long.MIN_VALUE);
    int[] codes = Plan.codes((ArrowType.Union) column.plan().type, column.children().length);
    boolean dense = column.plan().layout == Plan.Layout.DENSE;
    for (int i = 0; i < codes.length; i++) {
      last[codes[i]] = column.children()[i] == null ? Integer.MAX_VALUE : column.children()[i].length() - 1;
    }
    for (long row = 0; row < column.length(); row++) {
      int code = Platform.getByte(null, column.address()[0] + row);
      if (code < 0 || last[code] == Long.MIN_VALUE) {
        throw column.fault("row " + row + " has the type code " + code + ", which the schema does not have");
      }
      long offset = dense ? column.word(1, 4, row) : row;
      if (offset < 0 || offset > last[code]) {
        throw column.fault("row " + row + " has offset " + offset + " into a member of " + (last[code] + 1));
      }
    }
  }

  private static void checkRunEnds(Column column) {
    Column ends = column.children()[0];
    if (ends.nulls() > 0) {
      throw column.fault("run ends have no nulls");
    }
    long before = 0;
    for (long run = 0; run < ends.length(); run++) {
      long end = ends.word(1, ends.plan().width, run);
      if (end <= before) {
        throw column.fault("run " + run + " ends at " + end + ", the one before at " + before);
      }
      before = end;
    }
    if (before < column.length()) {
      throw column.fault("its runs end at " + before + " of " + column.length() + " rows");
    }
  }

  // -- text ----------------------------------------------------------------------------------------------------

  private static boolean isText(Column column) {
    return switch (column.plan().type.getTypeID()) {
      case Utf8, LargeUtf8, Utf8View -> true;
      default -> false;
    };
  }

  private static void checkText(Column column) {
    long first = column.offset(0);
    if (isAscii(column.address()[2] + first, column.offset(column.length()) - first)) {
      return;
    }
    for (long row = 0; row < column.length(); row++) {
      // What lies under a null is not text that anybody reads.
      if (!column.isNull(row) && !isUtf8(column.address()[2] + column.offset(row), column.count(row))) {
        throw column.fault("row " + row + " is not UTF-8");
      }
    }
  }

  private static void checkViews(Column column) {
    boolean text = isText(column);
    long stored = 0;
    for (long each : column.dataSize()) {
      stored += each;
    }
    // Views may overlap, so what is read of them is bounded: by what honest views add up to.
    long budget = 8 * stored + 64 * column.length();
    for (long row = 0; row < column.length(); row++) {
      if (column.isNull(row)) {
        continue;
      }
      long view = column.address()[1] + 16 * row;
      int size = Platform.getInt(null, view);
      long data = view + 4;
      if (size < 0) {
        throw column.fault("row " + row + " is a view of " + size + " bytes");
      }
      if (size > INLINE) {
        int buffer = Platform.getInt(null, view + 8);
        int offset = Platform.getInt(null, view + 12);
        if (buffer < 0 || buffer >= column.dataSize().length || offset < 0 || size > column.dataSize()[buffer] - offset) {
          throw column.fault("row " + row + " is a view of bytes that are not there");
        }
        data = column.dataAddress()[buffer] + offset;
        if (Platform.getInt(null, view + 4) != Platform.getInt(null, data)) {
          throw column.fault("row " + row + " is a view with another prefix than its bytes");
        }
      }
      budget -= size;
      if (text && budget < 0) {
        throw new ArrowIpcException.Limit("column '" + column.plan().path + "': its views share bytes again and again");
      }
      if (text && !isAscii(data, size) && !isUtf8(data, size)) {
        throw column.fault("row " + row + " is not UTF-8");
      }
    }
  }

  private static boolean isAscii(long at, long size) {
    long seen = 0;
    long end = at + size;
    for (; end - at >= 8; at += 8) {
      seen |= Platform.getLong(null, at);
    }
    for (; at < end; at++) {
      seen |= Platform.getByte(null, at);
    }
    return (seen & 0x8080808080808080L) == 0;
  }

  /** RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
  private static boolean isUtf8(long at, long size) {
    long end = at + size;
    while (at < end) {
      int lead = Platform.getByte(null, at++) & 255;
      if (lead < 0x80) {
        continue;
      }
      int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
      if (lead < 0xC2 || lead > 0xF4 || more > end - at) {
        return false;
      }
      int second = Platform.getByte(null, at) & 255;
      int low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
      int high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
      if (second < low || second > high) {
        return false;
      }
      for (int i = 1; i < more; i++) {
        if ((Platform.getByte(null, at + i) & 0xC0) != 0x80) {
          return false;
        }
      }
      at += more;
    }
    return true;
  }
}
