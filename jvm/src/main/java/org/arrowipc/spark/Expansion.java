package org.arrowipc.spark;

import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.spark.unsafe.Platform;

/**
 * Bounds what one row may become: views, dictionaries and runs inside lists let few bytes stand for any number of
 * values, all of which Spark copies into the row.
 */
final class Expansion {
  /** A row may have so many times the bytes of its batch, and this many in any case. */
  private static final long TIMES = 32;
  private static final long LEAST = 1 << 26;
  private static final long SLOT = 8;

  private Expansion() {}

  /** Bytes of all rows before one, about; they stay within a long, or are Long.MAX_VALUE. */
  private interface Sums {
    long before(long row);
  }

  /** Rows of the same size. */
  private record Alike(long each) implements Sums {
    @Override
    public long before(long row) {
      return each != 0 && row > Long.MAX_VALUE / each ? Long.MAX_VALUE : each * row;
    }
  }

  static void check(Column column, long bytes) {
    if (!multiplies(column.plan(), false)) {
      return;
    }
    if (column.plan().layout == Plan.Layout.STRUCT || column.plan().layout == Plan.Layout.RUN_END) {
      checkAll(column.children(), bytes);
      return;
    }
    if (column.plan().dictionary != null) {
      checkAll(column.dictionary().parts(), bytes);
      return;
    }
    Sums sums = sums(column);
    long most = LEAST + TIMES * bytes;
    long rows = sums instanceof Alike ? Math.min(1, column.length()) : column.length();
    for (long row = 0; row < rows; row++) {
      if (sums.before(row + 1) - sums.before(row) > most) {
        throw new ArrowIpcException.Limit("column '" + column.plan().path + "': row " + row + " stands for more than "
            + most + " bytes, as its elements are shared: " + TIMES + " times those of its batch and " + LEAST);
      }
    }
  }

  private static void checkAll(Column[] columns, long bytes) {
    for (Column column : columns) {
      if (column != null) {
        check(column, bytes);
      }
    }
  }

  /** Whether something in a list is shared, or takes no bytes of its own. */
  static boolean multiplies(Plan plan, boolean inList) {
    boolean list = switch (plan.layout) {
      case LIST32, LIST64, LIST_VIEW32, LIST_VIEW64, FIXED_LIST -> true;
      default -> false;
    };
    boolean shared = switch (plan.layout) {
      case NULL, VIEW, LIST_VIEW32, LIST_VIEW64, DENSE, RUN_END -> true;
      case FIXED -> plan.width == 0 || plan.dictionary != null;
      default -> false;
    };
    if (inList && shared) {
      return true;
    }
    for (Plan child : plan.dictionary != null ? plan.dictionary.columns : plan.children) {
      if (child.wanted && multiplies(child, inList || list)) {
        return true;
      }
    }
    return false;
  }

  private static Sums sums(Column column) {
    int n = column.children().length;
    Sums[] below = new Sums[n];
    boolean alike = true;
    for (int i = 0; i < n; i++) {
      below[i] = column.children()[i] == null ? new Alike(0) : sums(column.children()[i]);
      alike &= below[i] instanceof Alike;
    }
    switch (column.plan().layout) {
      case BITS, NULL:
        return new Alike(SLOT);
      case FIXED:
        return column.plan().dictionary == null ? new Alike(column.plan().width + SLOT) : dictionary(column);
      case VAR32, VAR64:
        return row -> column.offset(row) + 2 * SLOT * row;
      case VIEW:
        return each(column.length(), row -> column.isNull(row) ? 0 : Platform.getInt(null, column.address()[1] + 16 * row));
      case LIST32, LIST64, FIXED_LIST:
        if (alike && column.plan().layout == Plan.Layout.FIXED_LIST) {
          return new Alike(new Alike(((Alike) below[0]).each).before(column.plan().width));
        }
        return row -> capped(below[0].before(column.offset(row)), 2 * SLOT * row);
      case LIST_VIEW32, LIST_VIEW64:
        return each(column.length(), row -> column.isNull(row) ? 0
            : below[0].before(column.offset(row) + column.count(row)) - below[0].before(column.offset(row)));
      case RUN_END:
        return runs(column, below[1]);
      default:
        // Of a union's members too, though a row has only one of them; dense ones may share.
        return column.plan().layout == Plan.Layout.DENSE ? dense(column, below) : members(below, alike);
    }
  }

  private static Sums members(Sums[] below, boolean alike) {
    if (alike) {
      long each = SLOT;
      for (Sums member : below) {
        each = capped(each, ((Alike) member).each);
      }
      return new Alike(each);
    }
    return row -> {
      long sum = SLOT * row;
      for (Sums member : below) {
        sum = capped(sum, member.before(row));
      }
      return sum;
    };
  }

  private static Sums dense(Column column, Sums[] below) {
    int[] codes = Plan.codes((ArrowType.Union) column.plan().type, below.length);
    Sums[] of = new Sums[128];
    for (int i = 0; i < codes.length; i++) {
      of[codes[i]] = below[i];
    }
    return each(column.length(), row -> {
      Sums member = of[Platform.getByte(null, column.address()[0] + row)];
      long at = column.word(1, 4, row);
      return member.before(at + 1) - member.before(at);
    });
  }

  private static Sums dictionary(Column column) {
    Column[] parts = column.dictionary().parts();
    Sums[] sums = new Sums[parts.length];
    for (int i = 0; i < parts.length; i++) {
      sums[i] = sums(parts[i]);
    }
    return each(column.length(), row -> {
      long at = column.isNull(row) ? -1 : column.index(row);
      for (int i = 0; at >= 0; at -= parts[i++].length()) {
        if (at < parts[i].length()) {
          return sums[i].before(at + 1) - sums[i].before(at);
        }
      }
      return 0;
    });
  }

  private static Sums runs(Column column, Sums values) {
    Column ends = column.children()[0];
    int width = ends.plan().width;
    Sums before = each(ends.length(), run -> {
      long rows = ends.word(1, width, run) - (run == 0 ? 0 : ends.word(1, width, run - 1));
      return new Alike(values.before(run + 1) - values.before(run)).before(rows);
    });
    return row -> {
      long run = 0;
      for (long high = ends.length(); run < high;) {
        long middle = run + high >>> 1;
        if (ends.word(1, width, middle) <= row) {
          run = middle + 1;
        } else {
          high = middle;
        }
      }
      long start = run == 0 ? 0 : ends.word(1, width, run - 1);
      long part = row == start ? 0 : new Alike(values.before(run + 1) - values.before(run)).before(row - start);
      return capped(before.before(run), part);
    };
  }

  private static Sums each(long length, Sums size) {
    long[] sums = new long[(int) length + 1];
    for (int row = 0; row < length; row++) {
      sums[row + 1] = capped(capped(sums[row], size.before(row)), SLOT);
    }
    return row -> sums[(int) row];
  }

  private static long capped(long one, long other) {
    return one > Long.MAX_VALUE - other ? Long.MAX_VALUE : one + other;
  }
}
