package org.arrowipc.spark

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.mapreduce.Job
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.datasources.{FileFormat, OutputWriterFactory, PartitionedFile}
import org.apache.spark.sql.sources.{DataSourceRegister, Filter}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.util.SerializableConfiguration
import scala.jdk.CollectionConverters._

/** Arrow IPC files and streams as a file format: Spark lists, plans, commits and streams as for its own formats. */
final class ArrowIpcFormat extends FileFormat with DataSourceRegister with Serializable {
  override def shortName(): String = "arrowipc"
  override def toString: String = "ArrowIpc"
  override def hashCode: Int = getClass.hashCode
  override def equals(other: Any): Boolean = other.isInstanceOf[ArrowIpcFormat]

  override def isSplitable(session: SparkSession, options: Map[String, String], path: Path): Boolean = true
  override def supportBatch(session: SparkSession, schema: StructType): Boolean = true
  override def supportDataType(dataType: DataType): Boolean = SparkSchema.supports(dataType)

  override def inferSchema(
      session: SparkSession, options: Map[String, String], files: Seq[FileStatus]): Option[StructType] =
    new SchemaInference(session.asInstanceOf[classic.SparkSession], options).schema(files)

  override def prepareWrite(
      session: SparkSession, job: Job, options: Map[String, String], schema: StructType): OutputWriterFactory =
    new ArrowIpcWriterFactory(new WriteOptions(options))

  override def buildReaderWithPartitionValues(
      session: SparkSession, dataSchema: StructType, partitionSchema: StructType, requiredSchema: StructType,
      filters: Seq[Filter], options: Map[String, String], hadoopConf: Configuration)
      : PartitionedFile => Iterator[InternalRow] = {
    val configuration = session.asInstanceOf[classic.SparkSession].sparkContext
      .broadcast(new SerializableConfiguration(hadoopConf))
    val read = new ReadOptions(options.asJava)
    val wanted = SparkSchema.plain(requiredSchema).asInstanceOf[StructType]
    val pruner = Pruner(filters.toArray, SparkSchema.plain(dataSchema).asInstanceOf[StructType], read)
    val whole = StructType(requiredSchema ++ partitionSchema)
    // Spark asks for rows if its generated code cannot read batches, for example with very many columns.
    val asRows = options.get(FileFormat.OPTION_RETURNING_BATCH).contains("false")
    file => {
      val batches = new FileBatches(file, wanted, partitionSchema, pruner, read, configuration.value.value)
      if (asRows) {
        val project = UnsafeProjection.create(whole)
        batches.flatMap(_.rowIterator.asScala.map(project))
      } else batches.asInstanceOf[Iterator[InternalRow]] // supportBatch has told Spark that these are batches
    }
  }
}
