package org.arrowipc.spark
package payloads

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, ExprUtils, V2ExpressionUtils}

/**
 * For `spark.sql.extensions`: functions of the catalog under short names, `from_arrow(payload, 'id bigint')` and
 * `to_arrow(rows)`; the last argument may be a map of options.
 */
final class ArrowIpcExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    def inject(name: String, function: Class[_], build: Seq[Expression] => Expression): Unit =
      extensions.injectFunction((FunctionIdentifier(name), new ExpressionInfo(function.getName, name), build))
    inject(FromArrow.NAME, classOf[FromArrow], fromArrow)
    inject(ToArrow.NAME, classOf[ToArrow], toArrow)
  }

  private def textsOf(options: Map[String, String]): Seq[String] =
    options.toSeq.sorted.map { case (name, value) => s"$name=$value" }

  private def toArrow(arguments: Seq[Expression]): Expression = arguments match {
    case Seq(rows, more @ _*) if more.length < 2 =>
      val texts = textsOf(more.flatMap(ExprUtils.convertToMapData).toMap)
      val function = ToArrow.of(rows.dataType, texts).getOrElse(throw new ArrowIpcException.Usage(
        s"to_arrow takes one ${ToArrow.TAKES}, found ${rows.dataType.simpleString}"))
      V2ExpressionUtils.resolveScalarFunction(function, Seq(rows))
    case _ => throw new ArrowIpcException.Usage(
      "expected to_arrow(collect_list(struct(id, name))), or with map('compression', 'zstd') behind it")
  }

  private def fromArrow(arguments: Seq[Expression]): Expression = arguments match {
    case Seq(payload, schema, more @ _*) if more.length < 2 && schema.foldable =>
      val options = Map("column" -> payload.sql) ++ more.flatMap(ExprUtils.convertToMapData)
      val texts = String.valueOf(schema.eval()) +: textsOf(options)
      V2ExpressionUtils.resolveScalarFunction(FromArrow(texts), Seq(payload))
    case _ => throw new ArrowIpcException.Usage(
      "expected from_arrow(payload, 'id bigint, name string'), or with map('on_error', 'null') behind it")
  }
}
