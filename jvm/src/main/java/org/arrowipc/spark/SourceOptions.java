package org.arrowipc.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The options of a read that are about files and tasks, checked; what only Python knows of is declined. */
record SourceOptions(
    HashMap<String, String> given,
    ReadOptions read,
    List<String> paths,
    List<String> nameFilter,
    String format,
    List<String> columns,
    String basePath,
    Boolean recursive,
    long modifiedAfter,
    long modifiedBefore,
    boolean ignoreMissing,
    boolean dropMalformed,
    boolean mergeSchema,
    boolean metadata,
    boolean pushFilters,
    Long batchesPerPartition,
    Long partitionBytes,
    Long maxPartitionBytes,
    Long openCost,
    Long minPartitions,
    long planningThreshold)
    implements Serializable {

  private static final Set<String> OURS =
      Set.of(
          "engine", "path", "paths", "pathglobfilter", "format", "columns", "basepath", "recursivefilelookup",
          "modifiedafter", "modifiedbefore", "timezone", "ignoremissingfiles", "ignorecorruptfiles", "mode",
          "mergeschema", "withmetadata", "pushfilters", "batchesperpartition", "partitionbytes", "maxpartitionbytes",
          "opencostinbytes", "minpartitionnum", "parallelplanningthreshold", "rowsperbatch", "validate",
          "nanoseconds", "unsupported", "extensions", "columnnameofcorruptrecord");

  /** Options that Python's reader has, and this one has not. */
  private static final Set<String> PYTHONS = Set.of("describe", "recover", "filter", "maxfilespertrigger",
      "maxbytespertrigger", "maxtrackedfiles");

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Pattern BYTES = Pattern.compile("(\\d{1,15})([kmgtp]?)b?");

  /** What Spark adds to the options of a catalog's tables says nothing to a reader. */
  static CaseInsensitiveStringMap withoutCatalog(Map<String, String> options) {
    Map<String, String> kept = new HashMap<>();
    boolean catalog = options.containsKey(TableCatalog.PROP_OWNER) && options.containsKey(TableCatalog.PROP_PROVIDER);
    var reserved = Set.of("owner", "provider", "location", "comment", "collation", "external", "is_managed_location");
    options.forEach((name, value) -> {
      String lower = name.toLowerCase(Locale.ROOT);
      if (!catalog || !(reserved.contains(lower) || lower.startsWith(TableCatalog.OPTION_PREFIX))) {
        kept.put(name, value);
      }
    });
    if (catalog && !kept.containsKey("path") && options.containsKey(TableCatalog.PROP_LOCATION)) {
      kept.put("path", options.get(TableCatalog.PROP_LOCATION));
    }
    return new CaseInsensitiveStringMap(kept);
  }

  static SourceOptions of(CaseInsensitiveStringMap given) {
    for (String name : given.keySet()) {
      if (!OURS.contains(name)) {
        if (!PYTHONS.contains(name) && !name.startsWith("storage.")) {
          throw new ArrowIpcException.Usage("arrowipc has no option '" + name + "'");
        }
        if (!given.get(name).equalsIgnoreCase("false")) {
          throw new Declined("option " + name);
        }
      }
    }
    String mode = choice(given, "mode", "failfast", "permissive", "dropmalformed");
    if (mode.equals("permissive")) {
      throw new Declined("mode PERMISSIVE");
    }
    boolean ignoreCorrupt = flag(given, "ignoreCorruptFiles");
    if (ignoreCorrupt && given.containsKey("mode") && !mode.equals("dropmalformed")) {
      throw new ArrowIpcException.Usage("option ignoreCorruptFiles: mode says otherwise");
    }
    List<String> paths = new ArrayList<>();
    if (!given.getOrDefault("path", "").isEmpty()) {
      paths.add(given.get("path"));
    }
    if (!given.getOrDefault("paths", "").isEmpty()) {
      paths.addAll(texts("paths", given.get("paths")));
    }
    if (paths.isEmpty()) {
      throw new ArrowIpcException.Usage("there is no path");
    }
    String names = given.get("pathGlobFilter");
    count(given, "rowsPerBatch"); // batches stay as long as they are
    Long threshold = count(given, "parallelPlanningThreshold");
    return new SourceOptions(
        new HashMap<>(given), new ReadOptions(given), paths, names == null ? null : Listing.spelt(names),
        choice(given, "format", "auto", "file", "stream"), names(given, "columns"), given.get("basePath"),
        given.containsKey("recursiveFileLookup") ? flag(given, "recursiveFileLookup") : null,
        moment(given, "modifiedAfter", Long.MIN_VALUE), moment(given, "modifiedBefore", Long.MAX_VALUE),
        flag(given, "ignoreMissingFiles"), ignoreCorrupt || mode.equals("dropmalformed"), flag(given, "mergeSchema"),
        flag(given, "withMetadata"), !given.containsKey("pushFilters") || flag(given, "pushFilters"),
        count(given, "batchesPerPartition"), bytes(given, "partitionBytes", 1), bytes(given, "maxPartitionBytes", 1),
        bytes(given, "openCostInBytes", 0), count(given, "minPartitionNum"), threshold == null ? 10_000 : threshold);
  }

  private static boolean flag(CaseInsensitiveStringMap given, String name) {
    return choice(given, name, "false", "true").equals("true");
  }

  private static String choice(CaseInsensitiveStringMap given, String name, String... allowed) {
    String value = given.getOrDefault(name, allowed[0]).toLowerCase(Locale.ROOT);
    if (!List.of(allowed).contains(value)) {
      throw wrong(name, String.join(", ", allowed), value);
    }
    return value;
  }

  private static Long count(CaseInsensitiveStringMap given, String name) {
    String value = given.get(name);
    if (value == null) {
      return null;
    }
    if (!value.strip().matches("0*[1-9][0-9]{0,17}")) {
      throw wrong(name, "a whole number from 1", value);
    }
    return Long.valueOf(value.strip());
  }

  private static Long bytes(CaseInsensitiveStringMap given, String name, long least) {
    if (!given.containsKey(name)) {
      return null;
    }
    var found = BYTES.matcher(given.get(name).strip().toLowerCase(Locale.ROOT));
    if (!found.matches() || Long.parseLong(found.group(1)) < least) {
      throw wrong(name, "bytes from " + least + ", such as 4194304 or 4m", given.get(name));
    }
    return Long.parseLong(found.group(1)) << 10 * " kmgtp".indexOf(found.group(2).isEmpty() ? " " : found.group(2));
  }

  private static List<String> names(CaseInsensitiveStringMap given, String name) {
    String value = given.get(name);
    if (value == null) {
      return null;
    }
    boolean json = value.stripLeading().startsWith("[");
    List<String> found =
        json ? texts(name, value) : List.of(value.split(",", -1)).stream().map(String::strip).toList();
    if (found.stream().anyMatch(String::isEmpty)) {
      throw wrong(name, "names separated by commas or a JSON list of names", value);
    }
    return found;
  }

  private static List<String> texts(String name, String value) {
    try {
      return List.of(JSON.readValue(value, String[].class));
    } catch (JsonProcessingException | NullPointerException error) {
      throw wrong(name, "a JSON list of texts", value);
    }
  }

  /** A point in time in milliseconds, which files are compared with; Spark tells no source the session's time zone. */
  private static long moment(CaseInsensitiveStringMap given, String name, long otherwise) {
    String text = given.get(name);
    if (text == null) {
      return otherwise;
    }
    try {
      return (given.containsKey("timeZone")
              ? LocalDateTime.parse(text).atZone(ZoneId.of(given.get("timeZone"))).toInstant()
              : text.endsWith("Z") ? Instant.parse(text) : OffsetDateTime.parse(text).toInstant())
          .toEpochMilli();
    } catch (DateTimeException error) {
      throw wrong(name, "a time such as 2024-05-31T12:00:00", text);
    }
  }

  private static ArrowIpcException.Usage wrong(String name, String expected, String found) {
    return new ArrowIpcException.Usage("option " + name + ": expected " + expected + ", found '" + found + "'");
  }
}
