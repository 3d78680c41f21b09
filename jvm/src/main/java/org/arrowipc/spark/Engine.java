package org.arrowipc.spark;

import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Which engine answers: this one, or where it declines, and the option {@code engine} lets it, the Python source. */
final class Engine {
  static final String NAME = "arrowipc";
  static final Logger LOG = LoggerFactory.getLogger("arrowipc");

  private static final Set<String> SAID = ConcurrentHashMap.newKeySet();
  private static final int MOST_SAID = 1000;

  private Engine() {}

  /** What this engine answers, or else Python, which also says what is wrong; a session may set another usual way. */
  static <T> T choose(Map<String, String> options, Supplier<T> jvm, Supplier<T> python) {
    String usual = SQLConf.get().getConfString("spark.arrowipc.engine", "auto");
    String engine = options.getOrDefault("engine", usual).toLowerCase(Locale.ROOT);
    if (!engine.equals("auto") && !engine.equals("jvm")) {
      return python.get();
    }
    try {
      return jvm.get();
    } catch (Declined reason) {
      if (engine.equals("jvm")) {
        String text = "engine=jvm: " + reason.getMessage() + "; leave the option engine out, and Python reads it";
        throw new UnsupportedOperationException(text, reason);
      }
      say(options, reason);
      return python.get();
    } catch (ArrowIpcException | LinkageError reason) {
      boolean far = reason instanceof ArrowIpcException && Listing.isFar(options.getOrDefault("path", ""));
      if (engine.equals("jvm") || far) {
        throw reason; // Python may not know a far file system, and would say that only
      }
      say(options, reason); // and Python, in its own words, once more
      return python.get();
    }
  }

  private static void say(Map<String, String> options, Throwable reason) {
    String line = "Python reads " + options.getOrDefault("path", "this") + ": " + reason.getMessage();
    if (SAID.size() < MOST_SAID && SAID.add(line)) {
      LOG.warn(line);
    }
  }

  /** The Python source of our name, which Spark found by itself or was registered; a new one for each question. */
  static PythonDataSourceV2 python() {
    var source = new PythonDataSourceV2();
    source.setShortName(NAME);
    return source;
  }

  /** Options as Spark hands them to sources. */
  static CaseInsensitiveStringMap map(Map<String, String> options) {
    return new CaseInsensitiveStringMap(options);
  }
}
