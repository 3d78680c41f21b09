package org.arrowipc.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.NoSuchFileException;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import org.apache.hadoop.conf.Configuration;

/** Asks files a question, on the driver by many threads or in a task; errors name the file. */
final class Look {
  /** Far files that are asked at once: their cost is waiting. */
  private static final int FAR = 16;

  private Look() {}

  interface Question<T> {
    T of(IpcFile file) throws IOException;
  }

  interface Each<T> {
    T of(FoundFile file);
  }

  /** The answers about files, in their order, without those of files that are left out. */
  static <T> List<T> each(List<FoundFile> files, Each<T> question) {
    boolean near = files.stream().allMatch(file -> file.path().startsWith("/"));
    ForkJoinPool pool = near ? ForkJoinPool.commonPool() : new ForkJoinPool(FAR);
    try {
      return pool.submit(() -> files.parallelStream().map(question::of).filter(Objects::nonNull).toList()).get();
    } catch (ExecutionException error) {
      Throwable cause = error.getCause();
      throw cause instanceof RuntimeException known ? known : new IllegalStateException(cause);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(stopped);
    } finally {
      if (!near) {
        pool.shutdown();
      }
    }
  }

  /** What an open file answers; null where it is gone, or damaged, and the options let that be. */
  static <T> T in(FoundFile file, SourceOptions options, Configuration configuration, Question<T> question) {
    return tolerant(file, options, () -> {
      try (IpcFile opened = open(file, options, configuration)) {
        return question.of(opened);
      }
    });
  }

  static <T> T tolerant(FoundFile file, SourceOptions options, Callable<T> question) {
    try {
      return question.call();
    } catch (FileNotFoundException | NoSuchFileException gone) {
      if (options.ignoreMissing()) {
        return null;
      }
      throw new UncheckedIOException(gone);
    } catch (ArrowIpcException.Format damaged) {
      return leftOut(named(file.path(), damaged), options);
    } catch (ArrowIpcException | Declined error) {
      throw named(file.path(), error);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** Null with a line in the log, where what is malformed is dropped. */
  static <T> T leftOut(RuntimeException damaged, SourceOptions options) {
    if (!options.dropMalformed()) {
      throw damaged;
    }
    Engine.LOG.warn("left out: {}", damaged.getMessage());
    return null;
  }

  static IpcFile open(FoundFile file, SourceOptions options, Configuration configuration) throws IOException {
    boolean near = file.path().startsWith("/");
    var path = near ? null : new org.apache.hadoop.fs.Path(file.path());
    Source source = near ? Source.local(file.path()) : Source$.MODULE$.far(path, file.size(), configuration);
    try {
      IpcFile opened = IpcFile.open(source, options.read());
      if (opened.fault().isDefined()) {
        throw opened.fault().get().error();
      }
      return opened;
    } catch (Throwable error) {
      source.close();
      throw error;
    }
  }

  /** The same error with where it happened in front. */
  static RuntimeException named(String where, RuntimeException error) {
    String text = where + ": " + error.getMessage();
    if (error.getMessage() != null && error.getMessage().startsWith(where)) {
      return error;
    } else if (error instanceof Declined) {
      return new Declined(text);
    } else if (error instanceof ArrowIpcException.Format) {
      return new ArrowIpcException.Format(text, error);
    } else if (error instanceof ArrowIpcException.Limit) {
      return new ArrowIpcException.Limit(text, error);
    } else if (error instanceof ArrowIpcException.Unsupported) {
      return new ArrowIpcException.Unsupported(text);
    }
    return new ArrowIpcException.Usage(text);
  }
}
