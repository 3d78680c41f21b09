package org.arrowipc.spark
package payloads

import java.util
import org.apache.spark.sql.catalyst.analysis.{NoSuchFunctionException, NoSuchTableException}
import org.apache.spark.sql.connector.catalog.{FunctionCatalog, Identifier, Table, TableCatalog, TableChange}
import org.apache.spark.sql.connector.catalog.functions.{BoundFunction, ScalarFunction, UnboundFunction}
import org.apache.spark.sql.types.{BinaryType, DataType, NullType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The functions on payloads, for `spark.sql.catalog.arrowipc`: a function's schema and options are parts of its name.
 *
 * {{{
 * SELECT inline(arrowipc.`id bigint, name string`.`on_error=null`.from_arrow(payload)) FROM messages
 * SELECT topic, arrowipc.`compression=zstd`.to_arrow(collect_list(struct(id, name))) FROM prices GROUP BY topic
 * }}}
 *
 * The catalog has no tables, and says so to Spark, which then reads arrowipc.`path` as a file.
 */
final class ArrowIpcCatalog extends FunctionCatalog with TableCatalog {
  private var own = ""

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = own = name
  override def name: String = own

  override def listFunctions(namespace: Array[String]): Array[Identifier] =
    Array(FromArrow.NAME, SchemaOfArrow.NAME, ToArrow.NAME).map(Identifier.of(namespace, _))

  override def loadFunction(identifier: Identifier): UnboundFunction = {
    val texts = identifier.namespace.toSeq
    identifier.name.toLowerCase(util.Locale.ROOT) match {
      case FromArrow.NAME =>
        new Unbound(FromArrow.NAME, FromArrow.TAKES, { case BinaryType | NullType => FromArrow(texts) })
      case SchemaOfArrow.NAME =>
        new Unbound(SchemaOfArrow.NAME, FromArrow.TAKES, { case BinaryType | NullType => new SchemaOfArrow(texts) })
      case ToArrow.NAME => new Unbound(ToArrow.NAME, ToArrow.TAKES, Function.unlift(ToArrow.of(_, texts)))
      case _ => throw new NoSuchFunctionException(identifier)
    }
  }

  override def listTables(namespace: Array[String]): Array[Identifier] = Array.empty
  override def loadTable(identifier: Identifier): Table = throw new NoSuchTableException(identifier)
  override def alterTable(identifier: Identifier, changes: TableChange*): Table = loadTable(identifier)
  override def dropTable(identifier: Identifier): Boolean = false
  override def renameTable(from: Identifier, to: Identifier): Unit = loadTable(from)
}

/** A function of one column, whose type must be one that `make` accepts. */
private final class Unbound(function: String, takes: String, make: PartialFunction[DataType, ScalarFunction[_]])
    extends UnboundFunction {
  override def name: String = function
  override def description: String = s"$function takes one $takes"

  override def bind(given: StructType): BoundFunction = given.map(_.dataType) match {
    case Seq(make(bound)) => bound
    case others => throw new UnsupportedOperationException(
      s"$description, found (${others.map(_.simpleString).mkString(", ")})")
  }
}
