package org.arrowipc.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.read.InputPartition;

/** Which batches of which files each task reads, so that all tasks of a wave end at about the same time. */
final class Tasks {
  private static final long MIB = 1 << 20;
  /** What a task costs, in bytes that could be read meanwhile. */
  private static final long SMALLEST = 4 * MIB;
  private static final long LARGEST = 128 * MIB;
  /** What opening one more file costs; Spark's default is made for Parquet. */
  private static final long OPEN_COST = MIB / 16;

  /** What a task reads of one file; no numbers: all of its batches that the filters do not rule out. */
  record Slice(FoundFile file, int[] batches) implements Serializable {}

  record Partition(Slice[] slices) implements InputPartition {}

  /** What the driver saw of a file: the bytes of those of its batches that are read, and their numbers. */
  private record Found(FoundFile file, int[] batches, double[] bytes, int all) {}

  private final SourceOptions options;
  private final Configuration configuration = Session.configuration();
  private final FileColumns columns;
  private final Pruner pruner;
  private final InputPartition[] partitions;
  private final int listed;
  private long read;
  private long all;
  private int files;
  private boolean unopened;

  Tasks(List<FoundFile> found, FileColumns columns, Pruner pruner, SourceOptions options) {
    this.options = options;
    this.columns = columns;
    this.pruner = pruner;
    listed = found.size();
    List<FoundFile> kept = found.stream().filter(file -> Folders.keeps(pruner, file)).toList();
    files = kept.size();
    double share = share(kept);
    long cost = options.openCost() != null ? options.openCost() : or(Session.bytes("spark.sql.files.openCostInBytes"), OPEN_COST);
    double total = kept.stream().mapToLong(FoundFile::size).sum() * share + (double) cost * kept.size();
    double target = total / count(total);
    Set<Schema> fitting = ConcurrentHashMap.newKeySet();
    boolean many = kept.size() > options.planningThreshold() && options.batchesPerPartition() == null;
    List<Found> looked =
        Look.each(kept, file -> many || !looks(file, share, target) ? whole(file, share) : found(file, share, fitting));
    for (Found each : looked) {
      unopened |= each.batches == null;
      read += each.batches == null ? 0 : each.batches.length;
      all += each.all;
    }
    List<List<Slice>> shared = options.batchesPerPartition() == null ? spread(looked, cost) : byNumber(looked);
    partitions = shared.stream().map(each -> new Partition(each.toArray(Slice[]::new))).toArray(InputPartition[]::new);
  }

  InputPartition[] partitions() {
    return partitions;
  }

  @Override
  public String toString() {
    String batches = unopened ? "chosen by tasks" : read + " of " + all;
    return "files: " + files + " of " + listed + ", batches: " + batches + ", tasks: " + partitions.length;
  }

  /** Near files are opened all, which shows early what is for Python; far ones where they are to be cut. */
  private boolean looks(FoundFile file, double share, double target) {
    boolean near = file.path().startsWith("/");
    return near || options.batchesPerPartition() != null || file.size() * share > target || file.size() > LARGEST;
  }

  private Found whole(FoundFile file, double share) {
    return new Found(file, null, new double[] {file.size() * share}, 0);
  }

  private Found found(FoundFile file, double share, Set<Schema> fitting) {
    return Look.in(file, options, configuration, opened -> {
      if (!fitting.contains(opened.schema())) {
        new BatchReader(opened, columns.ofFile(file), options.read(), null).close();
        fitting.add(opened.schema());
      }
      List<Integer> kept = Folders.kept(pruner, file, opened);
      int[] numbers = kept.stream().mapToInt(Integer::intValue).toArray();
      double[] bytes = new double[numbers.length];
      for (int at = 0; at < numbers.length; at++) {
        var block = opened.batches().get(numbers[at]);
        bytes[at] = (block.metadataLength() + block.bodyLength()) * share;
      }
      return new Found(file, numbers, bytes, opened.batches().size());
    });
  }

  /** The part of the bytes that the chosen columns have, by the first batch of the largest file. */
  private double share(List<FoundFile> files) {
    FoundFile largest = files.stream().max(Comparator.comparingLong(FoundFile::size)).orElse(null);
    if (largest == null || !largest.path().startsWith("/")) {
      return 1;
    }
    try (BufferAllocator allocator = new RootAllocator()) {
      Double share = Look.in(largest, options, configuration, opened -> {
        if (opened.batches().isEmpty()) {
          return 1.0;
        }
        try (var reader = new BatchReader(opened, columns.ofFile(largest), options.read(), allocator)) {
          return (double) reader.bytes(0) / Math.max(1, opened.batches().get(0).bodyLength());
        }
      });
      return share == null ? 1 : Math.max(share, 1e-6);
    } catch (ArrowIpcException damaged) {
      return 1; // what is wrong with the file is said by those who read it
    }
  }

  private static long or(Long found, long otherwise) {
    return found == null ? otherwise : found;
  }

  /** As many partitions as there are cores, or a multiple of that. */
  private int count(double weight) {
    if (options.partitionBytes() != null) {
      return (int) Math.max(1, Math.ceil(weight / options.partitionBytes()));
    }
    long cores = or(options.minPartitions(), Session.cores());
    long most = or(options.maxPartitionBytes(), or(Session.bytes("spark.sql.files.maxPartitionBytes"), LARGEST));
    double waves = Math.ceil(weight / ((double) cores * most));
    return (int) Math.max(1, Math.min(cores * Math.max(1, waves), weight / SMALLEST));
  }

  /** Give each of some partitions the batches that lie in its share of all bytes. */
  private List<List<Slice>> spread(List<Found> looked, long cost) {
    double weight = 0;
    for (Found each : looked) {
      weight += cost + java.util.Arrays.stream(each.bytes).sum();
    }
    int count = count(weight);
    double reached = 0;
    List<List<Slice>> shared = new ArrayList<>();
    int last = -1;
    for (Found each : looked) {
      List<Integer> numbers = new ArrayList<>();
      for (int at = 0; at < each.bytes.length; at++) {
        double size = each.bytes[at] + (at == 0 ? cost : 0);
        int number = (int) Math.min(count - 1, (reached + size / 2) * count / Math.max(1, weight));
        if (number != last) {
          give(shared, each, numbers);
          shared.add(new ArrayList<>());
          last = number;
        }
        if (each.batches == null) {
          shared.get(shared.size() - 1).add(new Slice(each.file, null));
        } else {
          numbers.add(each.batches[at]);
        }
        reached += size;
      }
      give(shared, each, numbers);
    }
    return shared;
  }

  /** Give each partition at most so many batches, of one file. */
  private List<List<Slice>> byNumber(List<Found> looked) {
    List<List<Slice>> shared = new ArrayList<>();
    int most = (int) Math.min(Integer.MAX_VALUE, options.batchesPerPartition());
    for (Found each : looked) {
      for (int at = 0; at < each.batches.length; at += Math.min(most, each.batches.length - at)) {
        int end = Math.min(each.batches.length, at + Math.min(most, each.batches.length));
        shared.add(List.of(new Slice(each.file, java.util.Arrays.copyOfRange(each.batches, at, end))));
      }
    }
    return shared;
  }

  private static void give(List<List<Slice>> shared, Found file, List<Integer> numbers) {
    if (!numbers.isEmpty()) {
      var slice = new Slice(file.file, numbers.stream().mapToInt(Integer::intValue).toArray());
      shared.get(shared.size() - 1).add(slice);
      numbers.clear();
    }
  }
}
