package org.arrowipc.spark;

import org.apache.spark.SparkThrowable;

/**
 * What is wrong with bytes, values or options: the errors of the Python package under the same names. Spark hands its
 * own kind on from a task as it is, and PySpark has a class for arguments.
 */
public class ArrowIpcException extends IllegalArgumentException implements SparkThrowable {
  public ArrowIpcException(String message, Throwable cause) { super(message, cause); }

  @Override
  public String getCondition() {
    return "ARROW_IPC"; // without one it would be wrapped
  }

  /** The bytes break the Arrow format. */
  public static final class Format extends ArrowIpcException {
    /** Raise unless something holds; the words are made of a format and its parts only then. */
    static void unless(boolean good, String words, Object... parts) {
      if (!good) {
        throw new Format(String.format(words, parts));
      }
    }

    public Format(String message) { super(message, null); }

    public Format(String message, Throwable cause) { super(message, cause); }
  }

  /** The bytes ask for more than the limits allow. */
  public static final class Limit extends ArrowIpcException {
    static void unless(boolean good, String words, Object... parts) {
      if (!good) {
        throw new Limit(String.format(words, parts));
      }
    }

    public Limit(String message) { super(message, null); }

    public Limit(String message, Throwable cause) { super(message, cause); }
  }

  /** A type or value that Spark cannot hold. */
  public static final class Unsupported extends ArrowIpcException {
    public Unsupported(String message) { super(message, null); }
  }

  /** The caller asked for what is not there, or cannot be. */
  public static final class Usage extends ArrowIpcException {
    public Usage(String message) { super(message, null); }
  }
}
