package org.arrowipc.spark

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Try
import org.apache.arrow.vector.types.{FloatingPointPrecision, IntervalUnit, TimeUnit}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, Schema}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** Finds the Spark type for each Arrow type, by the same table as `arrowipc.spark.types`. */
object SparkTypes {
  /** The type TIME, which Spark 4.0 does not have. */
  private[spark] lazy val TIME: Try[DataType] = Try(DataType.fromJson("\"time(6)\""))

  /** Spark's type for times of day: a bigint of nanoseconds in Spark 4.0, and while the session refuses TIME. */
  private[spark] def time(): DataType =
    TIME.filter(_ => SQLConf.get.getConfString("spark.sql.timeType.enabled", "false").toBoolean).getOrElse(LongType)

  private val DayTime = new StructType().add("days", IntegerType).add("milliseconds", IntegerType)
  private val MonthDayNano =
    new StructType().add("months", IntegerType).add("days", IntegerType).add("nanoseconds", LongType)

  /** Spark's schema for Arrow data; everything is nullable. */
  def schema(schema: Schema, options: ReadOptions): StructType = {
    checkUnique(schema.getFields, "the schema")
    StructType(schema.getFields.asScala.flatMap { field =>
      try Some(StructField(Plan.name(field), of(field, options, Plan.name(field))))
      catch { case _: ArrowIpcException.Unsupported if options.unsupported == "drop" => None }
    }.toArray)
  }

  private def checkUnique(fields: java.util.List[Field], what: String): Unit = {
    val seen = mutable.Set.empty[String]
    for (field <- fields.asScala if !seen.add(Plan.name(field))) throw new ArrowIpcException.Usage(
      s"$what holds the name '${field.getName}' twice, and Spark finds columns by name; rename one of them where the " +
        "data is written, or give a schema without that name")
  }

  /** The extension type as which a field is read; empty for none. */
  private[spark] def meaning(field: Field, options: ReadOptions): String = {
    val name = field.getMetadata.getOrDefault(ArrowType.ExtensionType.EXTENSION_METADATA_KEY_NAME, "")
    name match {
      case _ if !options.extensions => ""
      case "arrow.uuid" if Plan.stored(field) == new ArrowType.FixedSizeBinary(16) => name
      case "arrow.bool8" if Plan.stored(field) == new ArrowType.Int(8, true) => name
      case "arrow.parquet.variant" | "arrow.timestamp_with_offset" =>
        throw new ArrowIpcException.Unsupported(
          s"column '${field.getName}' is $name; leave out the option extensions, which reads it as it is stored")
      case _ => ""
    }
  }

  /** The Spark type of the values of one field. */
  private[spark] def of(field: Field, options: ReadOptions, path: String): DataType = {
    val children = field.getChildren
    (meaning(field, options), Plan.stored(field)) match {
      case ("arrow.uuid", _) => StringType
      case ("arrow.bool8", _) => BooleanType
      case (_, _: ArrowType.RunEndEncoded) => of(children.get(1), options, path)
      case (_, Plan.Lists()) => ArrayType(of(children.get(0), options, path + ".element"))
      case (_, _: ArrowType.Struct) =>
        checkUnique(children, s"column '$path'")
        struct(children, children.asScala.map(Plan.name), options, path)
      case (_, union: ArrowType.Union) => struct(children, unionNames(union, children), options, path)
      case (_, _: ArrowType.Map) =>
        val entries = children.get(0).getChildren
        val key = of(entries.get(0), options, path + ".key")
        if (key.isInstanceOf[MapType]) throw new ArrowIpcException.Unsupported(
          s"column '$path': Spark has no maps with keys of type ${Plan.stored(entries.get(0))}")
        MapType(key, of(entries.get(1), options, path + ".value"))
      case (_, other) => leaf(other, options, path)
    }
  }

  private def struct(
      fields: java.util.List[Field], names: collection.Seq[String], options: ReadOptions, path: String): StructType =
    StructType(fields.asScala.zip(names).map { case (field, name) =>
      StructField(name, of(field, options, s"$path.$name"))
    }.toArray)

  /** Names of the struct fields for a union's members: the members' names, made unique by their type codes. */
  private[spark] def unionNames(union: ArrowType.Union, members: java.util.List[Field]): collection.Seq[String] = {
    val names = members.asScala.map(Plan.name)
    names.zip(Plan.codes(union, members.size)).map { case (name, code) =>
      if (name.nonEmpty && names.count(_ == name) == 1) name else s"${name}_$code"
    }
  }

  /** The unit of a time, timestamp or duration; null for other types. */
  private[spark] def unit(kind: ArrowType): TimeUnit = kind match {
    case time: ArrowType.Time => time.getUnit
    case timestamp: ArrowType.Timestamp => timestamp.getUnit
    case duration: ArrowType.Duration => duration.getUnit
    case _ => null
  }

  /** The Spark type of values without children. */
  private[spark] def leaf(kind: ArrowType, options: ReadOptions, path: String): DataType =
    if (unit(kind) == TimeUnit.NANOSECOND && options.nanoseconds == "long") LongType else natural(kind, options, path)

  /** The Spark type of values without children, if nanoseconds are not read as numbers. */
  private[spark] def natural(kind: ArrowType, options: ReadOptions, path: String): DataType = kind match {
    case _: ArrowType.Null => NullType
    case _: ArrowType.Bool => BooleanType
    case int: ArrowType.Int => integer(int)
    case real: ArrowType.FloatingPoint =>
      if (real.getPrecision == FloatingPointPrecision.DOUBLE) DoubleType else FloatType
    case Plan.Texts() => StringType
    case Plan.Binaries() => BinaryType
    case _: ArrowType.Date => DateType
    case _: ArrowType.Time => options.time
    case timestamp: ArrowType.Timestamp => if (timestamp.getTimezone == null) TimestampNTZType else TimestampType
    case _: ArrowType.Duration => DayTimeIntervalType()
    case interval: ArrowType.Interval => interval.getUnit match {
      case IntervalUnit.YEAR_MONTH => IntegerType
      case IntervalUnit.DAY_TIME => DayTime
      case IntervalUnit.MONTH_DAY_NANO => MonthDayNano
    }
    case decimal: ArrowType.Decimal => this.decimal(decimal, options, path)
    case _ => throw unsupported(kind, path, "", "")
  }

  private def integer(kind: ArrowType.Int): DataType =
    (if (kind.getIsSigned) 1 else 2) * kind.getBitWidth match {
      case 8 => ByteType
      case 16 => ShortType
      case 32 => IntegerType
      case 64 => LongType
      case _ => DecimalType(20, 0)
    }

  /** Spark requires 0 <= scale <= precision <= 38; Arrow has 12E+2 (scale -2) and 0.0012 (scale 4, precision 2). */
  private def decimal(kind: ArrowType.Decimal, options: ReadOptions, path: String): DataType = {
    val scale = math.max(kind.getScale.toLong, 0)
    val precision = math.max(kind.getPrecision + scale - kind.getScale, scale)
    if (precision <= DecimalType.MAX_PRECISION) DecimalType(precision.toInt, scale.toInt)
    else if (options.unsupported == "string") StringType
    else throw unsupported(kind, path, s" (its decimals have at most ${DecimalType.MAX_PRECISION} digits)",
      "unsupported=\"string\" reads it as text, ")
  }

  private def unsupported(kind: ArrowType, path: String, why: String, help: String): ArrowIpcException =
    new ArrowIpcException.Unsupported(s"column '$path' has the Arrow type $kind, which Spark cannot hold$why; option " +
      help + "unsupported=\"drop\" leaves the column out")
}
