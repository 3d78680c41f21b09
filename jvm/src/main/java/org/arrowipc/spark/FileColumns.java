package org.arrowipc.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.vectorized.ColumnVectorUtils;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/** What of the schema of a read a file has to give, and how that becomes all: keys of folders, and where rows stand. */
record FileColumns(StructType schema, boolean metadata) implements Serializable {
  FileColumns(StructType schema, SourceOptions options) {
    this(schema, options.metadata());
    for (StructField field : schema.fields()) {
      if (isAdded(field) && !Inference.METADATA.apply(field.name()).dataType().equals(field.dataType())) {
        throw new ArrowIpcException.Usage("column '" + field.name() + "' takes what withMetadata adds");
      }
    }
  }

  private boolean isAdded(StructField field) {
    return metadata && List.of(Inference.METADATA.fieldNames()).contains(field.name());
  }

  /** The columns that the batches of a file have to give. */
  StructType ofFile(FoundFile file) {
    List<StructField> own = new ArrayList<>();
    for (StructField field : schema.fields()) {
      if (!isAdded(field) && Names.find(field.name(), file.keys().keySet()) == null) {
        own.add(field);
      }
    }
    return DataTypes.createStructType(own);
  }

  /** The columns of a batch as those of the whole schema. */
  ColumnarBatch complete(ColumnarBatch batch, FoundFile file, int number) {
    int rows = batch.numRows();
    StructField[] fields = schema.fields();
    ColumnVector[] columns = new ColumnVector[fields.length];
    int own = 0;
    for (int at = 0; at < fields.length; at++) {
      if (Names.find(fields[at].name(), file.keys().keySet()) != null && !isAdded(fields[at])) {
        columns[at] = constant(rows, fields[at], Folders.typed(file, fields[at]));
      } else if (!isAdded(fields[at])) {
        columns[at] = batch.column(own++);
      } else if (fields[at].name().equals("_row")) {
        columns[at] = counted(rows);
      } else {
        boolean path = fields[at].name().equals("_file");
        columns[at] = constant(rows, fields[at], path ? UTF8String.fromString(file.path()) : (Object) number);
      }
    }
    return own == fields.length ? batch : new ColumnarBatch(columns, rows);
  }

  private static ColumnVector constant(int rows, StructField field, Object value) {
    var column = new ConstantColumnVector(rows, field.dataType());
    ColumnVectorUtils.populate(column, new GenericInternalRow(new Object[] {value}), 0);
    return column;
  }

  private static ColumnVector counted(int rows) {
    var column = new OnHeapColumnVector(rows, DataTypes.LongType);
    for (int row = 0; row < rows; row++) {
      column.putLong(row, row);
    }
    return column;
  }
}
