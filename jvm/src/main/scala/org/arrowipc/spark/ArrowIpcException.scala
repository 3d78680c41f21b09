package org.arrowipc.spark

import org.apache.spark.SparkThrowable

/**
 * An error in bytes, values or options; its subclasses have the names of the Python package's errors. Spark passes a
 * SparkThrowable from a task on unchanged, and PySpark has a class for IllegalArgumentException.
 */
class ArrowIpcException(message: String, cause: Throwable) extends IllegalArgumentException(message, cause)
    with SparkThrowable {
  override def getCondition: String = "ARROW_IPC" // without a condition, Spark would wrap the exception
}

object ArrowIpcException {
  sealed abstract class Checks(error: String => ArrowIpcException) {
    /** Raise an error unless `good`; only then the message is formatted. */
    def unless(good: Boolean, words: String, parts: Any*): Unit = if (!good) throw error(words.format(parts: _*))
  }

  /** The bytes break the Arrow format. */
  final class Format(message: String, cause: Throwable = null) extends ArrowIpcException(message, cause)
  object Format extends Checks(new Format(_, null))

  /** The bytes ask for more than the limits allow. */
  final class Limit(message: String, cause: Throwable = null) extends ArrowIpcException(message, cause)
  object Limit extends Checks(new Limit(_, null))

  /** A type or value that Spark cannot hold. */
  final class Unsupported(message: String) extends ArrowIpcException(message, null)

  /** The caller asked for something that does not exist, or is not possible. */
  final class Usage(message: String) extends ArrowIpcException(message, null)
}
