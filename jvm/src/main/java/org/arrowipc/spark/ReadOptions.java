package org.arrowipc.spark;

import java.io.Serializable;
import java.util.Locale;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What a read was asked for, checked, under the names and with the defaults of the Python data source. */
public final class ReadOptions implements Serializable {
  /** Bounds on what untrusted bytes may ask for: those of {@code arrowipc.Limits}, with its reasons. */
  public static final long METADATA_BYTES = 16L << 20;
  public static final int DEPTH = 64;
  public static final long ROWS_PER_BATCH = Integer.MAX_VALUE;
  public static final long DECOMPRESSED_BYTES = 2L << 30;
  public static final long DECOMPRESSED_RATIO = 1000;
  public static final long DECOMPRESSED_SLACK = 1L << 30;
  public static final long DICTIONARY_BYTES = 2L << 30;
  public static final long OVERLAP_BYTES = 64L << 20;

  /** {@code auto}, {@code file} or {@code stream}. */
  public final String format;
  /** Whether every offset, index and length is proven before Spark gets a vector. */
  public final boolean validate;
  /** {@code error}, {@code truncate} or {@code long}. */
  public final String nanoseconds;
  /** {@code error}, {@code drop} or {@code string}. */
  public final String unsupported;
  /** Whether extension types become what they mean. */
  public final boolean extensions;

  public ReadOptions(CaseInsensitiveStringMap options) {
    format = choice(options, "format", "auto", "file", "stream");
    String level = choice(options, "validate", "full", "none", "strict");
    if (level.equals("strict")) {
      throw new Declined("validate=strict is Python's");
    }
    validate = level.equals("full");
    nanoseconds = choice(options, "nanoseconds", "error", "truncate", "long");
    unsupported = choice(options, "unsupported", "error", "drop", "string");
    extensions = choice(options, "extensions", "false", "true").equals("true");
  }

  /** One of some words; the first is the default. */
  static String choice(CaseInsensitiveStringMap options, String name, String... allowed) {
    String found = options.getOrDefault(name, allowed[0]);
    for (String each : allowed) {
      if (each.equals(found.toLowerCase(Locale.ROOT))) {
        return each;
      }
    }
    String choices = "'" + String.join("', '", allowed) + "'";
    throw new ArrowIpcException.Usage("option " + name + ": expected one of " + choices + ", found '" + found + "'");
  }
}
