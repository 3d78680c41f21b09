package org.arrowipc.spark
package vectors

import scala.collection.mutable
import org.apache.arrow.vector.types.{DateUnit, FloatingPointPrecision, IntervalUnit, TimeUnit}
import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.arrowipc.spark.vectors.Converters.Converter

/** Plans once per schema how each column becomes the vector that Spark wants, and marks the columns to read. */
private[spark] final class Converters(options: ReadOptions) {
  private[this] val dictionaries = mutable.HashMap.empty[(Plan.Whole, DataType), Converter]

  /** Return the function that makes a vector of type `target` from a column; mark the column as wanted. */
  def plan(from: Plan, target: DataType, path: String): Converter = {
    from.wanted = true
    val meaning = SparkTypes.meaning(from.field, options)
    (target, from.`type`) match {
      case _ if from.dictionary != null => encoded(from, target, path)
      case (_: UserDefinedType[_], _) => throw new ArrowIpcException.Usage(
        s"column '$path' is wanted as $target; ask for its stored type")
      case (_, _: ArrowType.Null) => Converters.nulls(target)
      case (_, _: ArrowType.RunEndEncoded) => runs(from, target, path)
      case (NullType, _) => throw mismatch(from, target, path)
      case (_: StringType, _) if meaning == "arrow.uuid" => column => new Numbers.Uuid(target, column)
      case (BooleanType, _) if meaning == "arrow.bool8" => column => new Numbers.Bool8(target, column)
      case (map: MapType, _: ArrowType.Map) => this.map(from, map, path)
      case (array: ArrayType, Plan.Lists()) =>
        val element = plan(from.children(0), array.elementType, path + ".element")
        val required = Array(!array.containsNull)
        column => new Vectors.Lists(target, column, Array(element(column.children(0))), required)
      case (wanted: StructType, _: ArrowType.Struct) => struct(from, wanted, path)
      case (wanted: StructType, union: ArrowType.Union) => this.union(from, union, wanted, path)
      case (_, kind) if kind.isComplex => throw mismatch(from, target, path)
      case _ => leaf(from, target, path)
    }
  }

  private def encoded(from: Plan, target: DataType, path: String): Converter = {
    // Fields that share a dictionary share its vectors.
    val values =
      dictionaries.getOrElseUpdate((from.dictionary, target), plan(from.dictionary.columns(0), target, path))
    column => {
      val found = column.dictionary.vectors.computeIfAbsent(values, _ => {
        val parts = column.dictionary.parts.map(values)
        parts.foreach(part => part.check(0, part.length))
        if (parts.length == 1) parts(0) else new Vectors.Joined(target, parts, column.dictionary.length)
      })
      new Vectors.Taken(found, column.length, Converters.indices(column), true)
    }
  }

  private def runs(from: Plan, target: DataType, path: String): Converter = {
    from.children(0).wanted = true
    val values = plan(from.children(1), target, path)
    column => {
      val found = values(column.children(1))
      found.check(0, found.length)
      new Vectors.Taken(found, column.length, new Converters.Runs(column.children(0)), true)
    }
  }

  private def map(from: Plan, target: MapType, path: String): Converter = {
    val entries = from.children(0)
    entries.wanted = true
    val key = plan(entries.children(0), target.keyType, path + ".key")
    val value = plan(entries.children(1), target.valueType, path + ".value")
    val required = Array(true, !target.valueContainsNull)
    column => {
      val parts = column.children(0).children
      new Vectors.Lists(target, column, Array(key(parts(0)), value(parts(1))), required)
    }
  }

  private def struct(from: Plan, target: StructType, path: String): Converter = {
    val names = from.children.map(child => Plan.name(child.field))
    val members = this.members(from, names, target, path, "struct").map(_._2)
    val required = target.fields.map(!_.nullable)
    column => new Vectors.Struct(target, column, members.map(_(column)), required)
  }

  /** For each field of a struct, its position below a column (-1: none, so nulls), and its converter from that. */
  private def members(from: Plan, names: collection.Seq[String], target: StructType, path: String, kind: String)
      : Array[(Int, Converter)] = {
    val children = new Names(names)
    target.fields.map { field =>
      val place = children.only(field.name, !field.nullable, s"$kind column '$path'")
      if (place < 0) (place, Converters.nulls(field.dataType))
      else {
        val member = plan(from.children(place), field.dataType, s"$path.${field.name}")
        (place, (column: Column) => member(column.children(place)))
      }
    }
  }

  private def union(from: Plan, kind: ArrowType.Union, target: StructType, path: String): Converter = {
    target.fields.filter(!_.nullable).foreach(field => throw new ArrowIpcException.Usage(
      s"column '$path.${field.name}' is a member of a union and can only be read as nullable"))
    val members = this.members(from, SparkTypes.unionNames(kind, from.field.getChildren), target, path, "union")
    val codes = Plan.codes(kind, from.children.length)
    val dense = from.layout == Plan.Layout.DENSE
    column => {
      val offsets = if (dense) column.address(1) else 0L
      val vectors = members.map { case (place, member) =>
        val index = Converters.tagged(column.address(0), if (place < 0) -1 else codes(place), dense, offsets)
        new Vectors.Taken(member(column), column.length, index, false): Vector
      }
      new Vectors.Members(target, column.length, vectors)
    }
  }

  // -- values without children ---------------------------------------------------------------------------------

  private def leaf(from: Plan, target: DataType, path: String): Converter = (from.`type`, target) match {
    case (_: ArrowType.Decimal, _: StringType) => column => new Numbers.Decimals(target, column)
    case (kind: ArrowType.Interval, wanted: StructType) if kind.getUnit != IntervalUnit.YEAR_MONTH =>
      interval(from, SparkTypes.natural(kind, options, path).asInstanceOf[StructType], wanted, path)
    case (kind @ (Plan.Texts() | Plan.Binaries()), _: StringType | BinaryType) => own(kind, target)
    case (kind, _) =>
      val nanoseconds = SparkTypes.unit(kind) == TimeUnit.NANOSECOND
      val counted = target match {
        case LongType => nanoseconds || kind.isInstanceOf[ArrowType.Time]
        case _: DecimalType => nanoseconds && options.nanoseconds == "long"
        case _ => false
      }
      val natural = if (counted) LongType else SparkTypes.natural(kind, options, path)
      cast(own(kind, natural), natural, target, from, path)
  }

  private def cast(convert: Converter, natural: DataType, target: DataType, from: Plan, path: String): Converter =
    if (natural == target) convert
    else if (Cast.possible(natural, target)) column => new Cast(target, convert(column), from.path)
    else throw mismatch(from, target, path)

  /** Convert an interval to a struct of its numbers; other fields are null. */
  private def interval(from: Plan, natural: StructType, target: StructType, path: String): Converter = {
    val members = target.fields.map { field =>
      val i = natural.fields.indexWhere(_.name.equalsIgnoreCase(field.name))
      if (i < 0) Converters.nulls(field.dataType)
      else cast(column => new Vectors.Fixed(natural(i).dataType, column, 4 * i), natural(i).dataType, field.dataType,
        from, s"$path.${field.name}")
    }
    val required = target.fields.map(!_.nullable)
    column => new Vectors.Struct(target, column, members.map(_(column)), required)
  }

  /** Return the converter to a type's natural Spark type. */
  private def own(kind: ArrowType, target: DataType): Converter = kind match {
    case _: ArrowType.Bool => column => new Vectors.Bits(target, column)
    case int: ArrowType.Int if !int.getIsSigned => column => new Numbers.Unsigned(target, column)
    case real: ArrowType.FloatingPoint if real.getPrecision == FloatingPointPrecision.HALF =>
      column => new Numbers.Half(target, column)
    case _: ArrowType.FixedSizeBinary => column => new Vectors.Fixed(target, column, 0)
    case Plan.Texts() | Plan.Binaries() => column => new Vectors.Texts(target, column)
    case date: ArrowType.Date if date.getUnit == DateUnit.MILLISECOND =>
      column => new Numbers.Scaled(target, column, 1, 86400000, false, false)
    case _: ArrowType.Time | _: ArrowType.Timestamp | _: ArrowType.Duration => time(kind, target)
    case _: ArrowType.Decimal => column => new Numbers.Decimals(target, column)
    case _ => column => new Vectors.Fixed(target, column, 0)
  }

  private def time(kind: ArrowType, target: DataType): Converter = {
    // Spark's TIME counts nanoseconds, but only whole microseconds; its other types count microseconds.
    val unit = if (kind.isInstanceOf[ArrowType.Time]) 1000L else 1L
    // A TIME must be less than a day; a bigint may be more.
    val clock = unit > 1 && target != LongType
    val exact = options.nanoseconds != "truncate"
    SparkTypes.unit(kind) match {
      case TimeUnit.SECOND => column => new Numbers.Scaled(target, column, 1000000 * unit, 1, false, clock)
      case TimeUnit.MILLISECOND => column => new Numbers.Scaled(target, column, 1000 * unit, 1, false, clock)
      case TimeUnit.MICROSECOND if unit == 1 => column => new Vectors.Fixed(target, column, 0)
      case TimeUnit.MICROSECOND => column => new Numbers.Scaled(target, column, unit, 1, false, clock)
      case TimeUnit.NANOSECOND if target == LongType => column => new Vectors.Fixed(target, column, 0)
      case TimeUnit.NANOSECOND => column => new Numbers.Scaled(target, column, unit, 1000, exact, clock)
    }
  }

  private def mismatch(from: Plan, target: DataType, path: String): ArrowIpcException = {
    val natural = SparkTypes.of(from.field, options, path).simpleString
    new ArrowIpcException.Usage(s"column '$path' (${from.`type`}) is read as $natural, and the schema asks for " +
      s"${target.simpleString}; ask for $natural and cast in Spark")
  }
}

private[spark] object Converters {
  /** Makes the vector of one column of a batch. */
  type Converter = Column => Vector

  private def nulls(target: DataType): Converter = column => new Vectors.Nulls(target, column.length)

  private def indices(column: Column): Int => Int =
    if (column.plan.width == 4 && column.nulls == 0) {
      val base = column.address(1)
      row => Platform.getInt(null, base + 4L * row)
    } else row => if (column.isNull(row)) -1 else column.index(row).toInt

  /** Return the function from a union's row to that of the member with type code `code`; -1 for rows of others. */
  private def tagged(tags: Long, code: Int, dense: Boolean, offsets: Long): Int => Int = row =>
    if (Platform.getByte(null, tags + row) != code) -1
    else if (dense) Platform.getInt(null, offsets + 4L * row) else row

  /** Finds the run that contains a row: the run of the previous row is tried first. */
  private final class Runs(ends: Column) extends (Int => Int) {
    private[this] var run = 0

    private def end(of: Int): Long = ends.word(1, ends.plan.width, of)

    override def apply(row: Int): Int = {
      if (row >= end(run) || (run > 0 && row < end(run - 1))) run = math.min(ends.run(row), ends.length - 1).toInt
      run
    }
  }
}
