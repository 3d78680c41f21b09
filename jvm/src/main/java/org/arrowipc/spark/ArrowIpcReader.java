package org.arrowipc.spark;

import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;

/** Reads what one task is given, batch by batch; the vectors of a batch live until the next one is asked for. */
final class ArrowIpcReader implements PartitionReader<ColumnarBatch> {
  /** What tasks are sent, once for all of them. */
  record Factory(FileColumns columns, Pruner pruner, SourceOptions options, SerializableConfiguration far)
      implements PartitionReaderFactory {
    @Override
    public boolean supportColumnarReads(InputPartition partition) {
      return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      return new ArrowIpcReader(((Tasks.Partition) partition).slices(), this);
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("rows are read in batches");
    }
  }

  private final Iterator<Tasks.Slice> slices;
  private final Factory given;
  private final Configuration configuration;
  private final BufferAllocator allocator = new RootAllocator();
  private FoundFile file;
  private IpcFile opened;
  private BatchReader reader;
  private Iterator<Integer> numbers = Arrays.<Integer>asList().iterator();
  private ColumnarBatch current;

  private ArrowIpcReader(Tasks.Slice[] slices, Factory given) {
    this.slices = Arrays.asList(slices).iterator();
    this.given = given;
    configuration = given.far == null ? null : given.far.value();
  }

  @Override
  public boolean next() throws IOException {
    release();
    while (current == null) {
      if (numbers.hasNext()) {
        current = batch(numbers.next());
      } else if (slices.hasNext()) {
        open(slices.next());
      } else {
        return false;
      }
    }
    return true;
  }

  private void open(Tasks.Slice slice) throws IOException {
    closeFile();
    file = slice.file();
    List<Integer> found = Look.tolerant(file, given.options, () -> {
      opened = Look.open(file, given.options, configuration);
      reader = new BatchReader(opened, given.columns.ofFile(file), given.options.read(), allocator);
      if (slice.batches() == null) {
        return Folders.kept(given.pruner, file, opened);
      }
      if (opened.source().size() != file.size()) {
        String sizes = file.size() + " bytes then, " + opened.source().size() + " now";
        throw new IOException(file.path() + ": the file changed after it was planned (" + sizes + "): read it again");
      }
      return Arrays.stream(slice.batches()).boxed().toList();
    });
    numbers = (found == null ? List.<Integer>of() : found).iterator();
  }

  /** The batch of a number; null where it is damaged, and dropped. */
  private ColumnarBatch batch(int number) throws IOException {
    try {
      return given.columns.complete(reader.read(number), file, number);
    } catch (ArrowIpcException.Format | ArrowIpcException.Unsupported error) {
      return Look.leftOut(Look.named(file.path() + ": record batch " + number, error), given.options);
    } catch (ArrowIpcException | Declined error) {
      throw Look.named(file.path() + ": record batch " + number, error);
    }
  }

  @Override
  public ColumnarBatch get() {
    return current;
  }

  private void release() {
    if (current != null) {
      current.close();
      current = null;
    }
  }

  private void closeFile() throws IOException {
    numbers = Arrays.<Integer>asList().iterator();
    if (reader != null) {
      reader.close();
      reader = null;
    }
    if (opened != null) {
      opened.close();
      opened = null;
    }
  }

  @Override
  public void close() throws IOException {
    release();
    closeFile();
    allocator.close();
  }
}
