package org.arrowipc.spark

import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.unsafe.Platform
import org.arrowipc.spark.Plan.Layout._

/** Checks that everything that the values of a batch refer to exists: the rules of `validate="full"`. */
private[spark] object Validator {
  private final val INLINE = 12

  /** Check a column and all its children, after `checkSizes`. */
  def check(column: Column): Unit = {
    column.plan.layout match {
      case FIXED => if (column.plan.dictionary != null) checkIndices(column)
      case VAR32 | VAR64 =>
        checkOffsets(column, column.size(2))
        if (Plan.Texts.unapply(column.plan.`type`)) checkText(column)
      case VIEW => checkViews(column)
      case LIST32 | LIST64 =>
        checkOffsets(column, column.children(0).length)
        if (column.plan.`type`.isInstanceOf[ArrowType.Map]) checkEntries(column.children(0))
      case LIST_VIEW32 | LIST_VIEW64 => checkListViews(column, column.children(0).length)
      case SPARSE | DENSE => checkUnion(column)
      case RUN_END => checkRunEnds(column)
      case _ =>
    }
    column.children.foreach(child => if (child != null) check(child))
  }

  private def checkIndices(column: Column): Unit = {
    val limit = column.dictionary.length
    var row = 0L
    while (row < column.length) {
      val index = column.index(row)
      if ((index < 0 || index >= limit) && !column.isNull(row)) {
        throw column.fault(s"row $row has dictionary index $index, and there are $limit values")
      }
      row += 1
    }
  }

  /** Refuse offsets that are negative, decrease or exceed `limit`; an empty array may lack its only offset. */
  private def checkOffsets(column: Column, limit: Long): Unit = if (column.address(1) != 0) {
    val wide = column.plan.layout == VAR64 || column.plan.layout == LIST64
    val base = column.address(1)
    var before, bad, i = 0L
    while (i <= column.length) {
      val each = if (wide) Platform.getLong(null, base + 8 * i) else Platform.getInt(null, base + 4 * i).toLong
      bad |= each | each - before // negative if an offset is, or if it is less than the one before
      before = each
      i += 1
    }
    if (bad < 0 || before > limit) throw column.fault(s"its offsets do not rise from 0 to $limit")
  }

  private def checkEntries(entries: Column): Unit = {
    val key = entries.children(0)
    if (entries.nulls > 0 || key != null && key.nulls > 0) throw entries.fault("entries and keys of maps have no nulls")
  }

  private def checkListViews(column: Column, limit: Long): Unit = {
    var row = 0L
    while (row < column.length) {
      val offset = column.offset(row)
      val count = column.count(row)
      if (offset < 0 || offset > limit || count < 0 || count > limit - offset) {
        throw column.fault(s"row $row is a list of $count elements from $offset, of $limit")
      }
      row += 1
    }
  }

  private def checkUnion(column: Column): Unit = {
    val last = Array.fill(128)(Long.MinValue)
    val codes = Plan.codes(column.plan.`type`.asInstanceOf[ArrowType.Union], column.children.length)
    for (i <- codes.indices) {
      last(codes(i)) = if (column.children(i) == null) Int.MaxValue else column.children(i).length - 1
    }
    val dense = column.plan.layout == DENSE
    var row = 0L
    while (row < column.length) {
      val code = Platform.getByte(null, column.address(0) + row)
      if (code < 0 || last(code) == Long.MinValue) {
        throw column.fault(s"row $row has the type code $code, which the schema does not have")
      }
      val offset = if (dense) column.word(1, 4, row) else row
      if (offset < 0 || offset > last(code)) {
        throw column.fault(s"row $row has offset $offset into a member of ${last(code) + 1}")
      }
      row += 1
    }
  }

  private def checkRunEnds(column: Column): Unit = {
    val ends = column.children(0)
    if (ends.nulls > 0) throw column.fault("run ends have no nulls")
    var before, run = 0L
    while (run < ends.length) {
      val end = ends.word(1, ends.plan.width, run)
      if (end <= before) throw column.fault(s"run $run ends at $end, the one before at $before")
      before = end
      run += 1
    }
    if (before < column.length) throw column.fault(s"its runs end at $before of ${column.length} rows")
  }

  // -- text ----------------------------------------------------------------------------------------------------

  private def checkText(column: Column): Unit = {
    val first = column.offset(0)
    if (!isAscii(column.address(2) + first, column.offset(column.length) - first)) {
      var row = 0L
      while (row < column.length) {
        // The bytes of a null are never read as text.
        if (!column.isNull(row) && !isUtf8(column.address(2) + column.offset(row), column.count(row))) {
          throw column.fault(s"row $row is not UTF-8")
        }
        row += 1
      }
    }
  }

  private def checkViews(column: Column): Unit = {
    val text = Plan.Texts.unapply(column.plan.`type`)
    // Views may share bytes, so the bytes that are read are bounded: by several times what unshared views need.
    var budget = 8 * column.size.drop(2).sum + 64 * column.length
    var row = 0L
    while (row < column.length) {
      if (!column.isNull(row)) {
        val view = column.address(1) + 16 * row
        val size = Platform.getInt(null, view)
        val data = if (0 <= size && size <= INLINE) view + 4 else viewed(column, row, view, size)
        budget -= size
        if (text && budget < 0) {
          throw new ArrowIpcException.Limit(s"column '${column.plan.path}': its views share bytes again and again")
        }
        if (text && !isAscii(data, size) && !isUtf8(data, size)) throw column.fault(s"row $row is not UTF-8")
      }
      row += 1
    }
  }

  /** The address of a view's bytes if they are not in the view itself; refuse a view of bytes that do not exist. */
  private def viewed(column: Column, row: Long, view: Long, size: Int): Long = {
    if (size < 0) throw column.fault(s"row $row is a view of $size bytes")
    val buffer = Platform.getInt(null, view + 8)
    val offset = Platform.getInt(null, view + 12)
    if (buffer < 0 || buffer >= column.size.length - 2 || offset < 0 || size > column.size(2 + buffer) - offset) {
      throw column.fault(s"row $row is a view of bytes that are not there")
    }
    val data = column.address(2 + buffer) + offset
    if (Platform.getInt(null, view + 4) != Platform.getInt(null, data)) {
      throw column.fault(s"row $row is a view with another prefix than its bytes")
    }
    data
  }

  /** Whether bytes are ASCII: `start` is an address, or for an array `base`, an offset as [[Platform]] counts. */
  def isAscii(start: Long, size: Long, base: AnyRef = null): Boolean = {
    val end = start + size
    var seen = 0L
    var at = start
    while (end - at >= 8) {
      seen |= Platform.getLong(base, at)
      at += 8
    }
    while (at < end) {
      seen |= Platform.getByte(base, at)
      at += 1
    }
    (seen & 0x8080808080808080L) == 0
  }

  /** Whether bytes are UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
  def isUtf8(start: Long, size: Long): Boolean = {
    val end = start + size
    var at = start
    var good = true
    while (good && at < end) {
      val lead = Platform.getByte(null, at) & 255
      at += 1
      if (lead >= 0x80) {
        val more = if (lead >= 0xF0) 3 else if (lead >= 0xE0) 2 else 1
        good = lead >= 0xC2 && lead <= 0xF4 && more <= end - at
        if (good) {
          val second = Platform.getByte(null, at) & 255
          val low = if (lead == 0xE0) 0xA0 else if (lead == 0xF0) 0x90 else 0x80
          val high = if (lead == 0xED) 0x9F else if (lead == 0xF4) 0x8F else 0xBF
          good = low <= second && second <= high
        }
        var i = 1
        while (good && i < more) {
          good = (Platform.getByte(null, at + i) & 0xC0) == 0x80
          i += 1
        }
        at += more
      }
    }
    good
  }
}
