package org.arrowipc.spark

import java.util.Collection
import scala.jdk.CollectionConverters._

/** Names of columns as Spark means them: the only equal one, or else the only one that differs in case. */
private[spark] object Names {
  /** The name among some that another one means; null where there is none, or there are several. */
  def find(name: String, names: Collection[String]): String =
    if (names.contains(name)) name
    else names.asScala.filter(name.equalsIgnoreCase(_)).toSeq match {
      case Seq(only) => only
      case _ => null
    }
}
