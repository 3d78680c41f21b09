package org.arrowipc.spark

import java.util.{Collection, Locale}
import scala.jdk.CollectionConverters._
import org.apache.spark.sql.internal.SQLConf

/**
 * Names of columns as Spark means them: the only equal one, or else the only one that differs in case, unless
 * `spark.sql.caseSensitive` tells them apart; tasks have the settings of their session too.
 */
private[spark] object Names {
  def caseSensitive(): Boolean = SQLConf.get.caseSensitiveAnalysis

  /** What is the same of names that mean the same. */
  def key(name: String, caseSensitive: Boolean): String = if (caseSensitive) name else name.toLowerCase(Locale.ROOT)

  /** The name among some that another one means; null where there is none, or there are several. */
  def find(name: String, names: Collection[String]): String =
    if (names.contains(name)) name
    else {
      val sensitive = caseSensitive()
      names.asScala.filter(each => key(name, sensitive) == key(each, sensitive)).toSeq match {
        case Seq(only) => only
        case _ => null
      }
    }
}
