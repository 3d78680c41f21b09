package org.arrowipc.spark

import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnVector
import org.arrowipc.spark.vectors.{Converters, Vector, Vectors}

/**
 * The columns that Spark wants from data with one Arrow schema: where each is in a message, and how it is converted.
 *
 * @param label the name of the data in error messages
 */
private[spark] final class Projection(schema: Schema, wanted: StructType, options: ReadOptions, label: String) {
  val whole: Plan.Whole = Plan.of(schema.getFields)
  private val fields = wanted.fields
  /** For each field, the function that makes its vector from a batch's columns and number of rows. */
  private val makers: Array[(Array[Column], Int) => Vector] = {
    val planner = new Converters(options)
    val names = new Names(whole.columns.map(_.path))
    fields.map { field =>
      val place = names.only(field.name, !field.nullable, label)
      if (place < 0) (_: Array[Column], rows: Int) => new Vectors.Nulls(field.dataType, rows)
      else {
        val convert = planner.plan(whole.columns(place), field.dataType, field.name)
        (columns: Array[Column], _: Int) => convert(columns(place))
      }
    }
  }
  /** Whether the data have any of the wanted columns. */
  val isFound: Boolean = whole.columns.exists(_.wanted)

  /** Whether rows may take many times the bytes of their message, because values are shared or nested. */
  val expands: Boolean = whole.columns.exists { column =>
    column.wanted && (column.children.nonEmpty || Expansion.multiplies(column, inList = true))
  }

  /** The vectors of all fields; refuse values that Spark cannot hold. `columns` may be empty if none `isFound`. */
  def vectors(columns: Array[Column], rows: Int): Array[ColumnVector] = Array.tabulate(fields.length) { i =>
    val vector = makers(i)(columns, rows)
    vector.check(0, rows)
    if (!fields(i).nullable) Vectors.refuseNulls(vector, 0, rows, fields(i).name)
    vector
  }
}
