package org.arrowipc.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The schema of a read that nobody gave: of the first file or of all, their folders, and what was asked for. */
final class Inference {
  static final StructType METADATA =
      new StructType()
          .add("_file", DataTypes.StringType)
          .add("_batch", DataTypes.IntegerType)
          .add("_row", DataTypes.LongType);

  private Inference() {}

  static StructType schema(SourceOptions options) {
    Configuration configuration = Session.configuration();
    List<FoundFile> files = new Listing(options, configuration).files();
    List<StructField> fields = new ArrayList<>(List.of(ofFiles(files, options, configuration).fields()));
    for (StructField key : Folders.fields(files)) {
      if (options.columns() == null || Names.find(key.name(), options.columns()) != null) {
        // As in Spark, a key takes the place of the column that files have under its name.
        String own = Names.find(key.name(), fields.stream().map(StructField::name).toList());
        int place = fields.stream().map(StructField::name).toList().indexOf(own);
        if (place >= 0) {
          fields.set(place, key);
        } else {
          fields.add(key);
        }
      }
    }
    if (options.columns() != null) {
      fields = chosen(fields, options.columns());
    }
    if (options.metadata()) {
      for (StructField own : fields) {
        if (List.of(METADATA.fieldNames()).contains(own.name())) {
          throw new ArrowIpcException.Usage("there is a column '" + own.name() + "', and withMetadata adds one");
        }
      }
      fields.addAll(List.of(METADATA.fields()));
    }
    return DataTypes.createStructType(fields);
  }

  private static List<StructField> chosen(List<StructField> fields, List<String> columns) {
    List<StructField> chosen = new ArrayList<>();
    List<String> names = fields.stream().map(StructField::name).toList();
    for (String column : columns) {
      String found = Names.find(column, names);
      if (found == null) {
        throw new Declined("option columns: '" + column + "' is no column");
      }
      if (!chosen.contains(fields.get(names.indexOf(found)))) {
        chosen.add(fields.get(names.indexOf(found)));
      }
    }
    return chosen;
  }

  private static StructType ofFiles(List<FoundFile> files, SourceOptions options, Configuration configuration) {
    StructType merged = null;
    Set<Schema> seen = new HashSet<>();
    for (FoundFile file : files) {
      Schema schema = Look.in(file, options, configuration, IpcFile::schema);
      if (schema != null && seen.add(schema)) {
        StructType found = SparkTypes.schema(projected(schema, options.columns()), options.read());
        if (!options.mergeSchema()) {
          return found;
        }
        merged = merged == null ? found : Unify.merged(merged, found, false);
      }
    }
    if (merged == null) {
      throw new ArrowIpcException.Usage("no file is left of those that were found, by their times and folders");
    }
    return merged;
  }

  private static Schema projected(Schema schema, List<String> columns) {
    if (columns == null) {
      return schema;
    }
    List<Field> kept = schema.getFields().stream().filter(each -> Names.find(each.getName(), columns) != null).toList();
    return new Schema(kept, schema.getCustomMetadata());
  }
}
