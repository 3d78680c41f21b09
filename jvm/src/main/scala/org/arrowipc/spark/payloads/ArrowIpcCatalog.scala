package org.arrowipc.spark
package payloads

import java.util
import org.apache.spark.sql.catalyst.analysis.{NoSuchFunctionException, NoSuchTableException}
import org.apache.spark.sql.connector.catalog.{FunctionCatalog, Identifier, Table, TableCatalog, TableChange}
import org.apache.spark.sql.connector.catalog.functions.{BoundFunction, ScalarFunction, UnboundFunction}
import org.apache.spark.sql.types.{BinaryType, NullType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The functions on payloads, for `spark.sql.catalog.arrowipc`: a function's schema and options are parts of its name.
 *
 * {{{
 * SELECT inline(arrowipc.`id bigint, name string`.`on_error=null`.from_arrow(payload)) FROM messages
 * }}}
 *
 * It has no tables, and says so to Spark, which then finds the file of arrowipc.`path`.
 */
final class ArrowIpcCatalog extends FunctionCatalog with TableCatalog {
  private var own = ""

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = own = name
  override def name: String = own

  override def listFunctions(namespace: Array[String]): Array[Identifier] =
    Array(FromArrow.NAME, SchemaOfArrow.NAME).map(Identifier.of(namespace, _))

  override def loadFunction(identifier: Identifier): UnboundFunction = {
    val texts = identifier.namespace.toSeq
    identifier.name.toLowerCase(util.Locale.ROOT) match {
      case FromArrow.NAME => new Unbound(FromArrow.NAME, () => FromArrow(texts))
      case SchemaOfArrow.NAME => new Unbound(SchemaOfArrow.NAME, () => new SchemaOfArrow(FromArrow.optionsOf(texts)))
      case _ => throw new NoSuchFunctionException(identifier)
    }
  }

  override def listTables(namespace: Array[String]): Array[Identifier] = Array.empty
  override def loadTable(identifier: Identifier): Table = throw new NoSuchTableException(identifier)
  override def alterTable(identifier: Identifier, changes: TableChange*): Table = loadTable(identifier)
  override def dropTable(identifier: Identifier): Boolean = false
  override def renameTable(from: Identifier, to: Identifier): Unit = loadTable(from)
}

/** A function of one binary column. */
private final class Unbound(function: String, make: () => ScalarFunction[_]) extends UnboundFunction {
  override def name: String = function
  override def description: String = s"$function(payload BINARY)"

  override def bind(given: StructType): BoundFunction = given.map(_.dataType) match {
    case Seq(BinaryType | NullType) => make()
    case others => throw new UnsupportedOperationException(
      s"$function takes one binary column, found (${others.map(_.simpleString).mkString(", ")})")
  }
}
