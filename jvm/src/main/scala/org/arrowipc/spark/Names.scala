package org.arrowipc.spark

import java.util.Locale
import org.apache.spark.sql.internal.SQLConf

/**
 * Finds columns by name as Spark does: the only one of equal name, or else the only one whose name differs in case,
 * unless `spark.sql.caseSensitive` is set. Tasks have the settings of their session, too.
 */
private[spark] final class Names(names: collection.Seq[String]) {
  private[this] val caseSensitive = SQLConf.get.caseSensitiveAnalysis
  private[this] val equal = names.indices.groupBy(names)
  private[this] lazy val similar = names.indices.groupBy(at => Names.key(names(at), caseSensitive))

  /** The positions of the columns that a name may refer to. */
  def all(name: String): Seq[Int] =
    equal.get(name).filter(_.size == 1).orElse(similar.get(Names.key(name, caseSensitive))).getOrElse(Nil)

  /** The position of the column of a name; -1 if there is none. Refuse several, and if one is `required`, none. */
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
  /** The key of a name: equal names for Spark have equal keys. */
  def key(name: String, caseSensitive: Boolean): String = if (caseSensitive) name else name.toLowerCase(Locale.ROOT)
}
