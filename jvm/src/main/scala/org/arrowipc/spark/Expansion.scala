package org.arrowipc.spark

import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.unsafe.Platform
import org.arrowipc.spark.Plan.Layout._

/**
 * Bounds the bytes of one row: with views, dictionaries and runs inside lists, few bytes can stand for any number of
 * values, and Spark copies all of them into the row.
 */
private[spark] object Expansion {
  /** A row may take TIMES the bytes of its batch, plus LEAST. */
  private final val TIMES = 32L
  private final val LEAST = 1L << 26
  private final val SLOT = 8L
  /** The bytes that a copied row takes besides its values. */
  private final val ROW = 64L

  /** The estimated bytes of all rows before a row; Long.MaxValue if a Long cannot hold them. */
  private type Sums = Long => Long

  /** The sums of rows that all have the same size. */
  private final case class Alike(each: Long) extends Sums {
    def apply(row: Long): Long = if (each != 0 && row > Long.MaxValue / each) Long.MaxValue else each * row
  }

  def check(column: Column, bytes: Long): Unit = if (multiplies(column.plan, inList = false)) {
    if (column.plan.layout == STRUCT || column.plan.layout == RUN_END || column.plan.dictionary != null) {
      val below = if (column.plan.dictionary != null) column.dictionary.parts else column.children
      for (each <- below if each != null) check(each, bytes)
    } else {
      val sums = sumsOf(column)
      val most = LEAST + TIMES * bytes
      val rows = if (sums.isInstanceOf[Alike]) Math.min(1, column.length) else column.length
      var row = 0L
      while (row < rows) {
        if (size(sums, row) > most) {
          throw new ArrowIpcException.Limit(
            s"column '${column.plan.path}': row $row stands for more than $most bytes, as its elements are shared: " +
              s"$TIMES times those of its batch and $LEAST")
        }
        row += 1
      }
    }
  }

  /** The estimated bytes of all rows of some columns after Spark has copied them; null columns are not wanted. */
  def bytes(columns: Array[Column], rows: Long): Long = {
    val sums = columns.iterator.filter(_ != null).map(sumsOf(_)(rows))
    sums.foldLeft(Alike(ROW)(rows))(capped)
  }

  /** The bytes that rows take after Spark has copied them, without values outside of their slots. */
  def slots(columns: Int, rows: Long): Long = (ROW + SLOT * columns) * rows

  /** Whether elements of a list may share bytes, or take none of their own. */
  def multiplies(plan: Plan, inList: Boolean): Boolean = {
    val shared = plan.layout match {
      case NULL | VIEW | LIST_VIEW32 | LIST_VIEW64 | DENSE | RUN_END => true
      case FIXED => plan.width == 0 || plan.dictionary != null
      case FIXED_LIST => plan.width == 0
      case STRUCT => !plan.children.exists(_.wanted)
      case _ => false
    }
    val below: collection.Seq[Plan] = if (plan.dictionary != null) plan.dictionary.columns else plan.children
    inList && shared || below.exists(each => each.wanted && multiplies(each, inList || plan.layout.isList))
  }

  private def size(sums: Sums, row: Long): Long = sums(row + 1) - sums(row)

  private def sumsOf(column: Column): Sums = {
    val below = column.children.map(child => if (child == null) Alike(0) else sumsOf(child))
    column.plan.layout match {
      case BITS | NULL => Alike(SLOT)
      case FIXED => if (column.plan.dictionary == null) Alike(column.plan.width + SLOT) else dictionary(column)
      case VAR32 | VAR64 => row => column.offset(row) + 2 * SLOT * row
      case VIEW =>
        each(column.length, row => if (column.isNull(row)) 0 else Platform.getInt(null, column.address(1) + 16 * row))
      case LIST32 | LIST64 | FIXED_LIST =>
        val elements = below(0)
        if (column.plan.layout == FIXED_LIST && elements.isInstanceOf[Alike])
          Alike(capped(elements(column.plan.width), 2 * SLOT))
        else row => capped(elements(column.offset(row)), 2 * SLOT * row)
      case LIST_VIEW32 | LIST_VIEW64 =>
        val elements = below(0)
        each(column.length, row => if (column.isNull(row)) 0
          else elements(column.offset(row) + column.count(row)) - elements(column.offset(row)))
      case RUN_END => runs(column, below(1))
      case DENSE => dense(column, below)
      case _ => members(below) // sparse unions count all members, although a row has only one of them
    }
  }

  private def members(below: Array[Sums]): Sums =
    if (below.forall(_.isInstanceOf[Alike])) Alike(below.foldLeft(SLOT)((sum, member) => capped(sum, member(1))))
    else { row =>
      var sum = SLOT * row
      var i = 0
      while (i < below.length) {
        sum = capped(sum, below(i)(row))
        i += 1
      }
      sum
    }

  /** The sums of a dense union, whose rows may share values. */
  private def dense(column: Column, below: Array[Sums]): Sums = {
    val of = new Array[Sums](128)
    val codes = Plan.codes(column.plan.`type`.asInstanceOf[ArrowType.Union], below.length)
    for (i <- codes.indices) of(codes(i)) = below(i)
    each(column.length, row => size(of(Platform.getByte(null, column.address(0) + row)), column.word(1, 4, row)))
  }

  private def dictionary(column: Column): Sums = {
    val parts = column.dictionary.parts
    val of = parts.map(sumsOf)
    each(column.length, { row =>
      var at = if (column.isNull(row)) -1 else column.index(row)
      var i = 0
      while (at >= 0 && at >= parts(i).length) {
        at -= parts(i).length
        i += 1
      }
      if (at < 0) 0 else size(of(i), at)
    })
  }

  private def runs(column: Column, values: Sums): Sums = {
    val ends = column.children(0)
    def start(run: Long): Long = if (run == 0) 0 else ends.word(1, ends.plan.width, run - 1)
    val before = each(ends.length, run => Alike(size(values, run))(start(run + 1) - start(run)))
    row => {
      val run = ends.run(row)
      val part = if (row == start(run)) 0 else Alike(size(values, run))(row - start(run))
      capped(before(run), part)
    }
  }

  private def each(length: Long, size: Sums): Sums = {
    val sums = new Array[Long](length.toInt + 1)
    var row = 0
    while (row < length) {
      sums(row + 1) = capped(capped(sums(row), size(row)), SLOT)
      row += 1
    }
    row => sums(row.toInt)
  }

  private def capped(one: Long, other: Long): Long =
    if (one > Long.MaxValue - other) Long.MaxValue else one + other
}
