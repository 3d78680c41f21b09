// Prints what Arrow JS reads from streams and files: one line of JSON per path given.

import { readFileSync } from "node:fs";
import * as arrow from "apache-arrow";
import { decompress as zstd } from "fzstd";
import lz4 from "lz4js";

const { DataType, Type } = arrow;
// Copies, because typed arrays want aligned memory and a decompressor may return a part of something larger.
const codecs = { LZ4_FRAME: lz4.decompress, ZSTD: zstd };
for (const [name, decompress] of Object.entries(codecs)) {
  arrow.compressionRegistry.set(arrow.CompressionType[name], {
    decode: (data) => Uint8Array.from(decompress(data)),
  });
}

// Types.

const UNITS = ["s", "ms", "us", "ns"];
const INTERVALS = ["year_month", "day_time", "month_day_nano"];
const NAMES = {
  [Type.Null]: "null",
  [Type.Bool]: "bool",
  [Type.Utf8]: "utf8",
  [Type.LargeUtf8]: "large_utf8",
  [Type.Utf8View]: "utf8_view",
  [Type.Binary]: "binary",
  [Type.LargeBinary]: "large_binary",
  [Type.BinaryView]: "binary_view",
  [Type.List]: "list",
  [Type.LargeList]: "large_list",
  [Type.Struct]: "struct",
};

function typeName(type) {
  if (DataType.isInt(type)) return `${type.isSigned ? "int" : "uint"}${type.bitWidth}`;
  if (DataType.isFloat(type)) return ["float16", "float32", "float64"][type.precision];
  if (DataType.isDecimal(type)) return `decimal${type.bitWidth}(${type.precision},${type.scale})`;
  if (DataType.isDate(type)) return ["date[day]", "date[ms]"][type.unit];
  if (DataType.isTime(type)) return `time${type.bitWidth}[${UNITS[type.unit]}]`;
  if (DataType.isTimestamp(type)) {
    return `timestamp[${UNITS[type.unit]}${type.timezone ? `, ${type.timezone}` : ""}]`;
  }
  if (DataType.isDuration(type)) return `duration[${UNITS[type.unit]}]`;
  if (DataType.isInterval(type)) return `interval[${INTERVALS[type.unit]}]`;
  if (DataType.isFixedSizeBinary(type)) return `fixed_size_binary[${type.byteWidth}]`;
  if (DataType.isFixedSizeList(type)) return `fixed_size_list[${type.listSize}]`;
  if (DataType.isMap(type)) return type.keysSorted ? "map[sorted]" : "map";
  if (DataType.isUnion(type)) return `${["sparse", "dense"][type.mode]}_union[${[...type.typeIds]}]`;
  return NAMES[type.typeId] ?? String(type);
}

function field(described) {
  const encoded = DataType.isDictionary(described.type) ? described.type : null;
  const plain = encoded ? encoded.dictionary : described.type;
  return {
    name: described.name,
    type: typeName(plain),
    nullable: described.nullable,
    dictionary: encoded && { index: typeName(encoded.indices), ordered: encoded.isOrdered },
    metadata: Object.fromEntries(described.metadata),
    children: (plain.children ?? []).map(field),
  };
}

// Values.

/** The bytes of fixed-width element i, whatever kind of array the reader chose for them. */
function element(values, i, width) {
  return new DataView(values.buffer, values.byteOffset + i * width, width);
}

function value(data, i) {
  const { type } = data;
  if (DataType.isNull(type)) return null;
  if (DataType.isUnion(type)) {
    const code = data.typeIds[i];
    const child = data.children[type.typeIdToChildIndex[code]];
    return [code, value(child, DataType.isDenseUnion(type) ? data.valueOffsets[i] : i)];
  }
  if (!data.getValid(i)) return null;
  if (DataType.isDictionary(type)) return word(data.dictionary, Number(data.values[i]));
  if (DataType.isStruct(type)) return data.children.map((child) => value(child, i));
  if (DataType.isFixedSizeList(type)) {
    return range(data.children[0], i * type.listSize, (i + 1) * type.listSize);
  }
  if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isMap(type)) {
    return range(data.children[0], Number(data.valueOffsets[i]), Number(data.valueOffsets[i + 1]));
  }
  return scalar(data, type, i);
}

function range(data, start, end) {
  return Array.from({ length: end - start }, (_, i) => value(data, start + i));
}

/** A dictionary is a vector of as many pieces as it was sent in. */
function word(dictionary, i) {
  let piece = 0;
  while (i >= dictionary.data[piece].length) i -= dictionary.data[piece++].length;
  return value(dictionary.data[piece], i);
}

const vectors = new WeakMap();

function shown(data, i) {
  if (!vectors.has(data)) vectors.set(data, arrow.makeVector(data));
  return vectors.get(data).get(i);
}

function scalar(data, type, i) {
  if (DataType.isInt(type)) return String(data.values[i]);
  if (DataType.isFloat(type)) return bits(shown(data, i));
  if (DataType.isDecimal(type)) return decimal(element(data.values, i, type.bitWidth / 8), type.bitWidth);
  if (DataType.isInterval(type)) return interval(data.values, type, i);
  if (DataType.isDate(type) || DataType.isTime(type)) {
    const narrow = type.bitWidth === 32 || (DataType.isDate(type) && type.unit === 0);
    return stored(data.values, i, narrow ? 4 : 8);
  }
  if (DataType.isTimestamp(type) || DataType.isDuration(type)) return stored(data.values, i, 8);
  const found = shown(data, i);
  return found instanceof Uint8Array ? Buffer.from(found).toString("hex") : found;
}

function stored(values, i, width) {
  const bytes = element(values, i, width);
  return String(width === 4 ? bytes.getInt32(0, true) : bytes.getBigInt64(0, true));
}

function interval(values, type, i) {
  if (type.unit === 0) return stored(values, i, 4);
  const bytes = element(values, i, type.unit === 1 ? 8 : 16);
  const parts = [String(bytes.getInt32(0, true)), String(bytes.getInt32(4, true))];
  return type.unit === 1 ? parts : [...parts, String(bytes.getBigInt64(8, true))];
}

function bits(number) {
  if (Number.isNaN(number)) return "nan";
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

function decimal(bytes, width) {
  let found = 0n;
  for (let at = width / 32 - 1; at >= 0; at--) found = (found << 32n) | BigInt(bytes.getUint32(4 * at, true));
  return String(BigInt.asIntN(width, found));
}

function read(path) {
  const reader = arrow.RecordBatchReader.from(readFileSync(path)).open();
  const { schema } = reader; // gone at the end of the stream
  const batches = [...reader].map((batch) => ({
    rows: batch.numRows,
    columns: batch.data.children.map((column) => range(column, 0, batch.numRows)),
  }));
  return {
    schema: { fields: schema.fields.map(field), metadata: Object.fromEntries(schema.metadata) },
    batches,
  };
}

for (const path of process.argv.slice(2)) {
  let found;
  try {
    found = JSON.stringify(read(path));
  } catch (refused) {
    found = JSON.stringify({ error: String(refused) });
  }
  console.log(found);
}
