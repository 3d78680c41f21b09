package org.arrowipc.spark

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import org.apache.arrow.vector.types.{DateUnit, FloatingPointPrecision, IntervalUnit, TimeUnit}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, FieldType, Schema}
import org.apache.spark.sql.types._
import scala.jdk.CollectionConverters._
import scala.util.Try

/** Makes the Arrow schema for Spark's rows, and Spark's for a file; metadata hold what Arrow types cannot express. */
object SparkSchema {
  /** Key in a schema's metadata for Spark's own schema as JSON, written if that says more than the Arrow types. */
  private val KEY = "arrowipc:spark_schema"
  private val JSON = new ObjectMapper()
  /** The classes of Spark's own user-defined types, in the JVM and in Python. */
  private val OWN_TYPE = """(org\.apache\.spark|pyspark)\.(ml|mllib)\.linalg\.\w+UDT""".r

  /** Whether Arrow can hold the values of a Spark type. */
  def supports(dataType: DataType): Boolean = dataType match {
    case struct: StructType => struct.forall(field => supports(field.dataType))
    case array: ArrayType => supports(array.elementType)
    case map: MapType => supports(map.keyType) && supports(map.valueType)
    case udt: UserDefinedType[_] => supports(udt.sqlType)
    case other => leaf.isDefinedAt(other)
  }

  /** Whether a type is TIME, whose class Spark 4.0 does not have. */
  private def isTime(dataType: DataType): Boolean = dataType.typeName.startsWith("time(")

  /** The type as which values of a type are read: it has the same bits, and [[SparkTypes]] knows it. */
  def plain(dataType: DataType, text: DataType = StringType): DataType = dataType match {
    case struct: StructType =>
      StructType(struct.map(field => StructField(field.name, plain(field.dataType, text), field.nullable)))
    case ArrayType(element, nullable) => ArrayType(plain(element, text), nullable)
    case MapType(key, value, nullable) => MapType(plain(key, text), plain(value, text), nullable)
    case udt: UserDefinedType[_] => plain(udt.sqlType, text)
    case _: StringType | _: CharType | _: VarcharType => text
    case _: YearMonthIntervalType => IntegerType
    case _: DayTimeIntervalType => DayTimeIntervalType()
    case other => if (isTime(other)) SparkTypes.TIME.get else other
  }

  /** Spark's schema for a file; everything is nullable. */
  def of(schema: Schema, options: ReadOptions): StructType = {
    val natural = SparkTypes.schema(schema, options)
    val own = parsed(schema.getCustomMetadata.get(KEY)).map(each => each.name -> each).toMap
    def bytes(field: StructField) = // texts may be stored as binary
      plain(StructType(Seq(field)), BinaryType).asInstanceOf[StructType].toNullable
    StructType(natural.map(field => own.get(field.name).filter(bytes(_) == bytes(field)).getOrElse(field)))
  }

  /** Parse a schema from untrusted JSON; it is empty if that cannot be done, or there is none. */
  private def parsed(json: String): StructType =
    Try(DataType.fromJson(harmless(JSON.readTree(json)).toString).asInstanceOf[StructType].toNullable)
      .getOrElse(new StructType)

  /**
   * Replace user-defined types in the JSON by their stored types, except Spark's own. They name classes to construct
   * and modules to import, and may contain a pickle, which PySpark runs.
   */
  private def harmless(node: JsonNode): JsonNode = {
    def own =
      Seq("class", "pyClass").forall(key => OWN_TYPE.matches(node.path(key).asText)) && !node.has("serializedClass")
    node match {
      case _ if node.path("type").asText == "udt" && !own => harmless(node.path("sqlType"))
      case struct: ObjectNode =>
        struct.properties().forEach(each => each.setValue(harmless(each.getValue)))
        struct
      case list: ArrayNode =>
        for (i <- 0 until list.size) list.set(i, harmless(list.get(i)))
        list
      case _ => node
    }
  }

  /** The Arrow schema for columns of Spark; the option `invalidText` may say that texts are stored as binary. */
  def arrow(schema: StructType, invalidText: String): Schema = {
    val text = if (invalidText == "binary") ArrowType.Binary.INSTANCE else ArrowType.Utf8.INSTANCE
    val fields = schema.map(each => field(each.name, each.dataType, each.nullable, text)).asJava
    val defaults = new ReadOptions(java.util.Map.of[String, String])
    val said = Try(SparkTypes.schema(new Schema(fields), defaults)).toOption.contains(schema.toNullable)
    new Schema(fields, (if (said) Map.empty[String, String] else Map(KEY -> schema.json)).asJava)
  }

  /** What is wrong with a text that is not UTF-8, and what can be done about it. */
  def notUtf8(bytes: Array[Byte]): String = "not UTF-8, as Arrow's texts are: " +
    bytes.take(32).map("%02X".format(_)).mkString +
    "; set the option invalid_text=replace, or invalid_text=binary, which keeps the bytes of all texts"

  /** The Arrow types of Spark's types without children. */
  private val leaf: PartialFunction[DataType, ArrowType] = {
    case NullType => ArrowType.Null.INSTANCE
    case BooleanType => ArrowType.Bool.INSTANCE
    case whole @ (ByteType | ShortType | IntegerType | LongType) => new ArrowType.Int(8 * whole.defaultSize, true)
    case FloatType => new ArrowType.FloatingPoint(FloatingPointPrecision.SINGLE)
    case DoubleType => new ArrowType.FloatingPoint(FloatingPointPrecision.DOUBLE)
    case decimal: DecimalType => new ArrowType.Decimal(decimal.precision, decimal.scale, 128)
    case BinaryType => ArrowType.Binary.INSTANCE
    case DateType => new ArrowType.Date(DateUnit.DAY)
    case TimestampType => new ArrowType.Timestamp(TimeUnit.MICROSECOND, "UTC")
    case TimestampNTZType => new ArrowType.Timestamp(TimeUnit.MICROSECOND, null)
    case _: DayTimeIntervalType => new ArrowType.Duration(TimeUnit.MICROSECOND)
    case _: YearMonthIntervalType => new ArrowType.Interval(IntervalUnit.YEAR_MONTH)
    case other if isTime(other) => new ArrowType.Time(TimeUnit.NANOSECOND, 64)
    case _: StringType | _: CharType | _: VarcharType => ArrowType.Utf8.INSTANCE
  }

  private def field(name: String, dataType: DataType, isNullable: Boolean, text: ArrowType): Field = {
    def made(arrow: ArrowType, children: Field*) =
      new Field(name, new FieldType(isNullable || dataType == NullType, arrow, null), children.asJava)
    dataType match {
      case udt: UserDefinedType[_] => field(name, udt.sqlType, isNullable, text)
      case struct: StructType =>
        made(ArrowType.Struct.INSTANCE, struct.map(each => field(each.name, each.dataType, each.nullable, text)): _*)
      case ArrayType(element, nulls) => made(ArrowType.List.INSTANCE, field("element", element, nulls, text))
      case MapType(key, value, nulls) =>
        val entries = new StructType().add("key", key, nullable = false).add("value", value, nulls)
        made(new ArrowType.Map(false), field("entries", entries, isNullable = false, text))
      case _ => made(if (leaf(dataType) == ArrowType.Utf8.INSTANCE) text else leaf(dataType))
    }
  }
}
