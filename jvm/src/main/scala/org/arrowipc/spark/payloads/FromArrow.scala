package org.arrowipc.spark
package payloads

import java.util.concurrent.ConcurrentHashMap
import org.apache.arrow.memory.RootAllocator
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnarArray
import org.apache.spark.unsafe.types.UTF8String
import scala.util.Using

/**
 * `from_arrow(payload)` returns the rows of each payload as an array of structs. Spark calls it from generated code.
 *
 * In a task, an array is valid until the function is called again, like the rows of Spark's own operators.
 *
 * @param text the schema as DDL or JSON, and options such as `prefix=5`
 */
private[spark] final case class FromArrow(text: Seq[String]) extends ScalarFunction[ArrayData] {
  import FromArrow._

  private val schema = schemaOf(text)
  private val options = new PayloadOptions(pairsOf(text.tail))
  private val element = if (options.errorColumn.isEmpty) schema else schema.add(options.errorColumn, StringType)
  @transient private var running: Running = _

  override def inputTypes: Array[DataType] = Array(BinaryType)
  override def resultType: ArrayType = ArrayType(element, containsNull = false)
  override def name: String = NAME
  override def canonicalName: String = (text :+ NAME).mkString("arrowipc.", ".", "")
  /** The name in plans, and in the names of columns. */
  override def toString: String = NAME

  override def produceResult(input: InternalRow): ArrayData = invoke(input.getBinary(0))

  /** Spark finds and calls this method by its name. */
  def invoke(cell: Array[Byte]): ArrayData = {
    val context = TaskContext.get()
    if (context == null) Option(cell).map(alone).orNull
    else {
      if (running == null || running.context != context) running = new Running(context)
      running.rows(cell)
    }
  }

  /** Decode outside of tasks, for example when Spark folds constants: nothing is kept, and the rows are a copy. */
  private def alone(cell: Array[Byte]): ArrayData = Using.Manager { use =>
    val decoder = use(new PayloadDecoder(schema, options, use(new RootAllocator(ReadOptions.PAYLOAD_BYTES))))
    attempt(s"column '${options.column}'")(decoder.rows(cell)) match {
      case rows: ColumnarArray =>
        UnsafeProjection.create(Array[DataType](resultType))(InternalRow(rows)).getArray(0).copy()
      case other => other
    }
  }.get

  private def attempt(where: => String)(decode: => ArrayData): ArrayData = try decode catch {
    case error: ArrowIpcException if options.onError == "null" => null
    case error: ArrowIpcException if options.onError == "row" =>
      val reason = if (options.errorColumn.isEmpty) Nil else Seq(UTF8String.fromString(error.getMessage))
      new GenericArrayData(Array[Any](InternalRow.fromSeq(Seq.fill(schema.length)(null) ++ reason)))
    case error: ArrowIpcException => FileBatches.named(where, HELP)(throw error)
  }

  /** The state of one task. */
  private final class Running(val context: TaskContext) {
    // `memoryOf` must register its listener before the one below: the last listener of a task is called first.
    private val decoder = new PayloadDecoder(schema, options, memoryOf(context))
    private var row = -1L
    context.addTaskCompletionListener[Unit] { _ =>
      running = null
      decoder.close()
    }

    def rows(cell: Array[Byte]): ArrayData = {
      row += 1
      if (cell == null) null
      else attempt(s"column '${options.column}', row $row of partition ${context.partitionId()}")(decoder.rows(cell))
    }
  }
}

private[spark] object FromArrow {
  final val NAME = "from_arrow"
  final val TAKES = "binary column"
  private final val HELP = "; on_error=\"null\" gives null for such payloads, and decode_payloads(on_error=\"skip\") " +
    "leaves them out"

  /** The memory of each running task, which all of its functions share. */
  private[payloads] val memories = new ConcurrentHashMap[Long, RootAllocator]

  private def memoryOf(context: TaskContext): RootAllocator = {
    val task = context.taskAttemptId()
    Option(memories.get(task)).getOrElse {
      val memory = new RootAllocator(ReadOptions.PAYLOAD_BYTES)
      memories.put(task, memory)
      context.addTaskCompletionListener[Unit] { _ =>
        memories.remove(task)
        memory.close()
      }
      memory
    }
  }

  private def schemaOf(texts: Seq[String]): StructType = {
    val schema = texts.headOption.getOrElse(throw new ArrowIpcException.Usage(
      "from_arrow needs a schema: arrowipc.`id bigint, name string`.from_arrow(payload)"))
    val wanted = if (schema.trim.startsWith("{")) DataType.fromJson(schema) else StructType.fromDDL(schema)
    wanted.asInstanceOf[StructType]
  }

  /** Parse options of the form `name=value`. */
  def pairsOf(texts: Seq[String]): Map[String, String] = texts.map(_.split("=", 2) match {
    case Array(name, value) => name.trim -> value
    case Array(text) => throw new ArrowIpcException.Usage(s"expected an option such as on_error=null, found '$text'")
  }).toMap
}
