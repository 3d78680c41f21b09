package org.arrowipc.spark

import java.util.Locale
import org.apache.spark.sql.internal.SQLConf

/**
 * Names of columns as Spark means them: the only equal one, or else the only one that differs in case, unless
 * `spark.sql.caseSensitive` tells them apart; tasks have the settings of their session too.
 */
private[spark] final class Names(names: collection.Seq[String]) {
  private[this] val caseSensitive = SQLConf.get.caseSensitiveAnalysis
  private[this] val equal = names.indices.groupBy(names)
  private[this] lazy val similar = names.indices.groupBy(at => Names.key(names(at), caseSensitive))

  /** Where those are that a name means. */
  def all(name: String): Seq[Int] =
    equal.get(name).filter(_.size == 1).orElse(similar.get(Names.key(name, caseSensitive))).getOrElse(Nil)

  /** Where the one is that a name means; -1 for none, an error where one is required, as several always are. */
  def only(name: String, required: Boolean, label: String): Int = {
    val found = all(name)
    if (found.size > 1) throw new ArrowIpcException.Usage(
      s"$label has ${found.size} columns named '$name'; Spark finds columns by name")
    if (found.isEmpty && required) throw new ArrowIpcException.Usage(
      s"$label has no column '$name', and the schema says that it has no nulls")
    found.headOption.getOrElse(-1)
  }
}

private[spark] object Names {
  /** What is the same of names that mean the same. */
  def key(name: String, caseSensitive: Boolean): String = if (caseSensitive) name else name.toLowerCase(Locale.ROOT)
}
