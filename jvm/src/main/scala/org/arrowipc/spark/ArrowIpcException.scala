package org.arrowipc.spark

import org.apache.spark.SparkThrowable

/**
 * What is wrong with bytes, values or options: the errors of the Python package under the same names. Spark hands its
 * own kind on from a task as it is, and PySpark has a class for arguments.
 */
class ArrowIpcException(message: String, cause: Throwable) extends IllegalArgumentException(message, cause)
    with SparkThrowable {
  override def getCondition: String = "ARROW_IPC" // without one it would be wrapped
}

object ArrowIpcException {
  /** The bytes break the Arrow format. */
  final class Format(message: String, cause: Throwable = null) extends ArrowIpcException(message, cause)

  object Format {
    /** Raise unless something holds; the words are made of a format and its parts only then. */
    def unless(good: Boolean, words: String, parts: Any*): Unit = if (!good) throw new Format(words.format(parts: _*))
  }

  /** The bytes ask for more than the limits allow. */
  final class Limit(message: String, cause: Throwable = null) extends ArrowIpcException(message, cause)

  object Limit {
    def unless(good: Boolean, words: String, parts: Any*): Unit = if (!good) throw new Limit(words.format(parts: _*))
  }

  /** A type or value that Spark cannot hold. */
  final class Unsupported(message: String) extends ArrowIpcException(message, null)

  /** The caller asked for what is not there, or cannot be. */
  final class Usage(message: String) extends ArrowIpcException(message, null)
}
