package org.arrowipc.spark;

import java.math.BigInteger;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.unsafe.types.UTF8String;

/** Hive keys: columns whose values are in the names of folders, {@code year=2024/country=NZ/part-0.arrow}. */
final class Folders {
  private static final String NULL = "__HIVE_DEFAULT_PARTITION__";
  private static final int MOST_KEYS = 64;
  private static final Pattern INTEGER = Pattern.compile("-?[0-9]{1,19}");
  private static final Pattern DATE = Pattern.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}");
  private static final Pattern REAL = Pattern.compile("[+-]?[0-9]*\\.[0-9]+|-?[0-9]{1,9}");

  private Folders() {}

  /** Keys and their texts of the folders of a path, from some place in it on. */
  static Map<String, String> keys(String path, int begin) {
    Map<String, String> found = new LinkedHashMap<>();
    if (path.indexOf('=', begin) < 0) {
      return Map.of();
    }
    String[] parts = path.substring(begin).split("/");
    for (int at = 0; at < parts.length - 1; at++) {
      int split = parts[at].indexOf('=');
      if (split > 0) {
        String name = unquoted(parts[at].substring(0, split));
        String text = unquoted(parts[at].substring(split + 1));
        if (found.containsKey(name) || found.size() == MOST_KEYS) {
          throw new ArrowIpcException.Usage(path + ": the key '" + name + "' repeats, or there are too many");
        }
        found.put(name, text.equals(NULL) ? null : text);
      }
    }
    return found;
  }

  private static String unquoted(String text) {
    try {
      return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
    } catch (IllegalArgumentException noEscape) {
      throw new Declined("a folder is called '" + text + "'");
    }
  }

  /** The columns that the folders of all files are: int, bigint, double, date, string or void. */
  static List<StructField> fields(List<FoundFile> files) {
    Map<String, Set<String>> texts = new LinkedHashMap<>();
    for (FoundFile file : files) {
      file.keys().forEach((name, text) -> {
        String known = Names.find(name, texts.keySet());
        texts.computeIfAbsent(known == null ? name : known, each -> new HashSet<>()).add(text);
      });
      if (texts.size() > MOST_KEYS) {
        throw new ArrowIpcException.Usage(file.path() + " and others: the folders have too many keys together");
      }
    }
    List<StructField> fields = new ArrayList<>();
    texts.forEach((name, all) -> {
      all.remove(null);
      fields.add(DataTypes.createStructField(name, type(all), true));
    });
    return fields;
  }

  private static DataType type(Set<String> texts) {
    if (texts.isEmpty()) {
      return DataTypes.NullType;
    }
    if (texts.stream().allMatch(text -> INTEGER.matcher(text).matches() && new BigInteger(text).bitLength() < 64)) {
      boolean small = texts.stream().allMatch(text -> new BigInteger(text).bitLength() < 32);
      return small ? DataTypes.IntegerType : DataTypes.LongType;
    }
    if (texts.stream().allMatch(text -> value(text, DataTypes.DateType) != null)) {
      return DataTypes.DateType;
    }
    return texts.stream().allMatch(text -> REAL.matcher(text).matches()) ? DataTypes.DoubleType : DataTypes.StringType;
  }

  /** The value of a key as Spark's rows hold it. */
  static Object typed(FoundFile file, StructField field) {
    String text = file.keys().get(Names.find(field.name(), file.keys().keySet()));
    if (text == null ? !field.nullable() : value(text, field.dataType()) == null) {
      String type = field.dataType().simpleString();
      throw new ArrowIpcException.Usage(
          file.path() + ": the key '" + field.name() + "' is '" + text + "', which is no " + type);
    }
    return text == null ? null : value(text, field.dataType());
  }

  /** Whether a file has to be opened, by its folders. */
  static boolean keeps(Pruner pruner, FoundFile file) {
    return file.keys().isEmpty() || pruner.passes(name -> ofKey(pruner, file, name, Pruner.Nothing()));
  }

  /** The batches of an open file that have to be read. */
  static List<Integer> kept(Pruner pruner, FoundFile file, IpcFile opened) {
    Bounds bounds = new Bounds(opened, pruner.schema(), pruner.options());
    return java.util.stream.IntStream.range(0, opened.batches().size()).boxed()
        .filter(batch -> pruner.passes(name -> ofKey(pruner, file, name, known(bounds, batch, name)))).toList();
  }

  private static Pruner.Known known(Bounds bounds, int batch, String name) {
    boolean added = Names.find(name, List.of(Inference.METADATA.fieldNames())) != null;
    return added ? Pruner.Nothing() : bounds.known(batch, name);
  }

  private static Pruner.Known ofKey(Pruner pruner, FoundFile file, String name, Pruner.Known otherwise) {
    String own = Names.find(name, List.of(pruner.schema().fieldNames()));
    if (own == null || Names.find(name, file.keys().keySet()) == null) {
      return otherwise;
    }
    Object value = Pruner.comparable(typed(file, pruner.schema().apply(own)));
    return value == null ? Pruner.Missing() : new Pruner.Known(true, false, value, value);
  }

  private static Object value(String text, DataType type) {
    try {
      if (type instanceof StringType) {
        return UTF8String.fromString(text);
      } else if (type instanceof IntegralType && INTEGER.matcher(text).matches()) {
        return type == DataTypes.LongType
            ? (Object) Long.valueOf(text)
            : type == DataTypes.IntegerType
                ? (Object) Integer.valueOf(text)
                : type instanceof ByteType ? (Object) Byte.valueOf(text) : (Object) Short.valueOf(text);
      } else if (type == DataTypes.DoubleType) {
        return Double.valueOf(text);
      } else if (type == DataTypes.FloatType) {
        return Float.valueOf(text);
      } else if (type == DataTypes.BooleanType && (text.equals("true") || text.equals("false"))) {
        return Boolean.valueOf(text);
      } else if (type == DataTypes.DateType && DATE.matcher(text).matches()) {
        return Math.toIntExact(LocalDate.parse(text).toEpochDay());
      } else if (type == DataTypes.TimestampNTZType) {
        LocalDateTime time = LocalDateTime.parse(text.replace(' ', 'T'));
        return time.toEpochSecond(ZoneOffset.UTC) * 1_000_000 + time.getNano() / 1000;
      }
    } catch (NumberFormatException | DateTimeException none) {
      return null;
    }
    return null;
  }
}
