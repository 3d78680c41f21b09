package org.arrowipc.spark
package payloads

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, ExprUtils, V2ExpressionUtils}

/**
 * For `spark.sql.extensions`: the function of the catalog under a short name, `from_arrow(payload, 'id bigint')`, with
 * a map of options as a third argument.
 */
final class ArrowIpcExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    val info = new ExpressionInfo(classOf[FromArrow].getName, FromArrow.NAME)
    extensions.injectFunction((FunctionIdentifier(FromArrow.NAME), info, build(_)))
  }

  private def build(arguments: Seq[Expression]): Expression = arguments match {
    case Seq(payload, schema, more @ _*) if more.length < 2 && schema.foldable =>
      val options = Map("column" -> payload.sql) ++ more.flatMap(ExprUtils.convertToMapData)
      val texts = String.valueOf(schema.eval()) +: options.toSeq.sorted.map { case (name, value) => s"$name=$value" }
      V2ExpressionUtils.resolveScalarFunction(FromArrow(texts), Seq(payload))
    case _ => throw new ArrowIpcException.Usage(
      "expected from_arrow(payload, 'id bigint, name string'), or with map('on_error', 'null') behind it")
  }
}
