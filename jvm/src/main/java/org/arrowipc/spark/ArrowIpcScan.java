package org.arrowipc.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

/** One read: which columns of which files, planned here and read by tasks, or by Python where a file is not for us. */
final class ArrowIpcScan implements Scan, Batch, SupportsReportStatistics {
  private final StructType wanted;
  private final StructType schema;
  private final SourceOptions options;
  private final List<Filter> filters;
  private List<FoundFile> files;
  private Tasks planned;

  ArrowIpcScan(StructType wanted, StructType schema, SourceOptions options, List<Filter> filters) {
    this.wanted = wanted;
    this.schema = schema;
    this.options = options;
    this.filters = filters;
  }

  @Override
  public StructType readSchema() {
    return wanted;
  }

  private List<FoundFile> files() {
    if (files == null) {
      files = new Listing(options, Session.configuration()).files();
    }
    return files;
  }

  private Pruner pruner() {
    return new Pruner(filters.toArray(Filter[]::new), schema, options.read());
  }

  private Tasks planned() {
    if (planned == null) {
      planned = new Tasks(files(), new FileColumns(wanted, options), pruner(), options);
    }
    return planned;
  }

  @Override
  public Batch toBatch() {
    return Engine.choose(
        options.given(),
        () -> {
          planned();
          return this;
        },
        () -> python().toBatch());
  }

  /** Streams are read by Python: this one has neither offsets nor checkpoints. */
  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return python().toMicroBatchStream(checkpoint);
  }

  private Scan python() {
    var given = Engine.map(options.given());
    ScanBuilder builder = ArrowIpcTable.python(wanted, given).newScanBuilder(given);
    if (given.getBoolean("pushFilters", false) && builder instanceof SupportsPushDownFilters pushed) {
      pushed.pushFilters(filters.toArray(Filter[]::new));
    }
    return builder.build();
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return planned().partitions();
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    Configuration far = files().stream().allMatch(file -> file.path().startsWith("/")) ? null : Session.configuration();
    var shipped = far == null ? null : new SerializableConfiguration(far);
    return new ArrowIpcReader.Factory(new FileColumns(wanted, options), pruner(), options, shipped);
  }

  /** Sizes without a look into the files: their bytes, by the part that columns of such types usually have. */
  @Override
  public Statistics estimateStatistics() {
    long bytes;
    try {
      bytes = files().stream().mapToLong(FoundFile::size).sum();
    } catch (ArrowIpcException | Declined unknown) {
      bytes = Long.MAX_VALUE;
    }
    double share = (double) wanted.defaultSize() / Math.max(1, schema.defaultSize());
    OptionalLong size = OptionalLong.of((long) (bytes * Math.min(1, share)));
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return size;
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }

  @Override
  public String description() {
    String read = "arrowipc " + options.paths() + ", columns: " + wanted.catalogString();
    String pushed = filters.isEmpty() ? "" : ", filters: " + filters;
    try {
      return read + pushed + ", " + planned();
    } catch (ArrowIpcException | Declined reason) {
      return read + pushed + ", by Python: " + reason.getMessage();
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ArrowIpcScan scan && key().equals(scan.key());
  }

  @Override
  public int hashCode() {
    return key().hashCode();
  }

  private List<Object> key() {
    return new ArrayList<>(List.of(wanted, schema, options.given(), filters));
  }
}
