package org.arrowipc.spark
package payloads

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction
import org.apache.spark.sql.types._
import scala.util.Using

/**
 * `to_arrow(rows)` returns the structs of each array as a stream of one batch. Spark calls it from generated code. A
 * struct is one row; a struct whose only field has rows, as Python makes it from one column, is those rows.
 *
 * @param given the type of the argument, which [[ToArrow.of]] must have accepted
 */
private[spark] final case class ToArrow private (given: DataType, text: Seq[String])
    extends ScalarFunction[Array[Byte]] {
  import ToArrow._

  private val options = new EncodeOptions(FromArrow.pairsOf(text))
  private val inner = unwrapped(given)
  private val isWrapped = inner ne given
  private val schema = rowOf(inner).get
  @transient private var encoder: PayloadEncoder = _
  @transient private var running: TaskContext = _

  override def inputTypes: Array[DataType] = Array(given)
  override def resultType: DataType = BinaryType
  override def name: String = NAME
  override def canonicalName: String = (text :+ NAME).mkString("arrowipc.", ".", s"(${given.catalogString})")
  /** The name in plans, and in the names of columns. */
  override def toString: String = NAME

  override def produceResult(input: InternalRow): Array[Byte] = given match {
    case _ if input.isNullAt(0) => null
    case _: ArrayType => invoke(input.getArray(0))
    case struct: StructType => invoke(input.getStruct(0, struct.length))
  }

  /** Spark finds and calls this method by its name. */
  def invoke(rows: ArrayData): Array[Byte] =
    if (rows == null) null
    else encode(Array.tabulate(rows.numElements)(i => if (rows.isNullAt(i)) null else rows.getStruct(i, schema.length)))

  /** The same method for structs. */
  def invoke(row: InternalRow): Array[Byte] =
    if (row == null || isWrapped && row.isNullAt(0)) null
    else if (!isWrapped) encode(Array(row))
    else if (inner.isInstanceOf[ArrayType]) invoke(row.getArray(0))
    else encode(Array(row.getStruct(0, schema.length)))

  private def encode(rows: Array[SpecializedGetters]): Array[Byte] = FileBatches.named(NAME) {
    val context = TaskContext.get()
    if (context == null) Using.resource(new PayloadEncoder(schema, options))(_.encode(rows))
    else {
      if (running != context) {
        val own = new PayloadEncoder(schema, options)
        context.addTaskCompletionListener[Unit] { _ =>
          running = null
          own.close()
        }
        encoder = own
        running = context
      }
      encoder.encode(rows)
    }
  }
}

private[spark] object ToArrow {
  final val NAME = "to_arrow"
  final val TAKES = "array of structs, or one struct"

  /** The function for arguments of a type; None if the type has no rows. */
  def of(given: DataType, text: Seq[String]): Option[ToArrow] = rowOf(unwrapped(given)).map { row =>
    row.foreach(field => check(field.dataType, field.name))
    unique(row, "the payload")
    ToArrow(given, text)
  }

  /** The type of the rows, with all columns nullable; None if a type has no rows. */
  private def rowOf(dataType: DataType): Option[StructType] = dataType match {
    case ArrayType(row: StructType, _) => rowOf(row)
    case row: StructType => Some(StructType(row.map(field => StructField(field.name, field.dataType))))
    case _ => None
  }

  private def unwrapped(dataType: DataType): DataType = dataType match {
    case StructType(Array(only)) if rowOf(only.dataType).nonEmpty => only.dataType
    case other => other
  }

  private def unique(struct: StructType, where: String): Unit =
    for (name <- struct.names.diff(struct.names.distinct).headOption) throw new UnsupportedOperationException(
      s"$where would hold the name '$name' twice, and columns are found by name; rename one of them")

  private def check(dataType: DataType, path: String): Unit = dataType match {
    case struct: StructType =>
      unique(struct, s"column '$path'")
      struct.foreach(field => check(field.dataType, s"$path.${field.name}"))
    case ArrayType(element, _) => check(element, s"$path.element")
    case MapType(key, value, _) =>
      check(key, s"$path.key")
      check(value, s"$path.value")
    case udt: UserDefinedType[_] => check(udt.sqlType, path)
    case other => for (words <- instead(other, path)) throw new UnsupportedOperationException(
      s"column '$path' has the Spark type ${other.simpleString}, which payloads cannot hold; $words")
  }

  /** Advice for a type that payloads cannot hold; None for other types. */
  private def instead(dataType: DataType, path: String): Option[String] = dataType match {
    case _: YearMonthIntervalType => Some("pyarrow could not read it; write its months as a number: " +
      s"extract(YEAR FROM $path) * 12 + extract(MONTH FROM $path)")
    case other if SparkSchema.supports(other) => None
    case CalendarIntervalType => Some("write its parts as columns")
    case VariantType => Some(s"write to_json($path), and use parse_json on what is read")
    case _ => Some("cast it, or leave it out")
  }
}
