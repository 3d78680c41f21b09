"""Uses of files in Spark, each of a few lines, which are tried with our format and with Parquet, its twin.

``python twins.py MASTER JAR FOLDER NAME...`` tries them and prints a JSON line for each name. It needs only PySpark, of
any version 4, so that an interpreter without this package can run it.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FORMATS = ("parquet", "arrowipc")
#: The endings of the names of written files.
ENDINGS = {"parquet": ".parquet", "arrowipc": ".arrow"}
#: Patterns of texts that may differ between two runs or two formats, and what replaces them.
NEUTRAL = (
    (r"(part-\d+)-[0-9a-f-]{36}(_\d+)?[.-](c\d+)(\.\w+)*", r"\1\2-\3"),
    (r"\.(parquet|arrow)\b", ".EXTENSION"),
    (r"Parquet\b|ArrowIpc\b|parquet\b|arrowipc\b", "FORMAT"),
    (r"#\d+L?|plan_id=\d+|\[id=[^]]*\]", ""),
)


#: The results of our format in the twins where it differs from Parquet, as the guide says.
DIFFERENCES: dict[str, Any] = {
    "metadata_has_row_numbers": "AnalysisException FIELD_NOT_FOUND",
    "columns_of_nulls_and_variants": ["done", "AnalysisException UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"],
    "compressions_of_one_format": ["done", "IllegalArgumentException ARROW_IPC"],
    "columns_added_to_a_table": ["AnalysisException _LEGACY_ERROR_TEMP_1260", "[]"],
    "defaults_without_a_setting": "AnalysisException DEFAULT_UNSUPPORTED",
    "user_defined_types_of_others": "array<double>",
}
TYPES = (
    "id > 0 AS b", "CAST(id AS BYTE) i8", "CAST(-id AS SHORT) i16", "CAST(id AS INT) i32", "CAST(id AS FLOAT) f",
    "id / 3D AS d", "CAST(id AS DECIMAL(4,2)) d4", "CAST(id AS DECIMAL(18,0)) d18", "CAST(id AS DECIMAL(38,18)) d38",
    "CAST(id AS STRING) s", "CAST(CAST(id AS STRING) AS BINARY) bin", "date_add(DATE'1500-01-01', int(id)) dt",
    "TIMESTAMP'1600-01-01 00:00:00.000001Z' t", "TIMESTAMP_NTZ'0001-01-01 00:00:00.000001' n",
    "INTERVAL '1-2' YEAR TO MONTH ym", "INTERVAL '3' YEAR y", "INTERVAL '1 02:03:04.5' DAY TO SECOND dti",
    "INTERVAL '3' HOUR h", "INTERVAL '3' DAY dy", "IF(id = 1, NULL, array(id, NULL)) a",
    "map(id, IF(id = 1, NULL, 'x')) m",
    "IF(id = 1, NULL, named_struct('x', id, 'y', array(map('k', DATE'2020-01-01')))) st",
    "array(CAST(NULL AS DECIMAL(30,2)), 1.5) da", "named_struct('n', CAST(NULL AS DECIMAL(30,2))) sd",
)  # fmt: skip


class Ways:
    """A session, a format, a folder for one twin and short ways to use them."""

    def __init__(self, spark: Any, format: str, folder: Path) -> None:
        self.spark, self.format, self.folder = spark, format, folder
        self.ending = ENDINGS[format]

    def path(self, name: str = "t") -> str:
        return str(self.folder / name)

    def numbers(self, count: int = 20, files: int = 2, first: int = 0) -> Any:
        found = self.spark.range(first, first + count, 1, files)
        return found.selectExpr("id", "id * 2 AS v", "id % 3 AS k", "CAST(id % 2 AS STRING) AS s")

    def save(self, frame: Any, name: str = "t", *keys: str, mode: str = "error", **options: Any) -> str:
        frame.write.format(self.format).mode(mode).options(**options).partitionBy(*keys).save(self.path(name))
        return self.path(name)

    def load(self, *names: str, schema: str | None = None, **options: Any) -> Any:
        reader = self.spark.read.format(self.format).options(**options)
        return (reader.schema(schema) if schema else reader).load([self.path(name) for name in names or ("t",)])

    def stream(self, schema: str | None, **options: Any) -> Any:
        reader = self.spark.readStream.format(self.format).options(**options)
        return (reader.schema(schema) if schema else reader).load(self.path("in"))

    def read(self, *names: str, **options: Any) -> list[str]:
        return self.rows(self.load(*names, **options))

    def sql(self, text: str) -> list[str]:
        """The rows of a statement, in which FORMAT and FOLDER stand for those in use."""
        for word, value in (("FORMAT", self.format), ("FOLDER", str(self.folder))):
            text = text.replace(word, value)
        return self.rows(self.spark.sql(text))

    def rows(self, frame: Any) -> list[str]:
        return sorted(repr(tuple(row)) for row in frame.collect())

    def files(self, path: str | None = None) -> list[str]:
        root = Path(path or self.path())
        return sorted(str(each.relative_to(root)) for each in root.rglob("*") if not re.search(r"/\.|_meta", str(each)))

    def data(self, path: str | None = None) -> list[Path]:
        return sorted(Path(path or self.path()).rglob(f"*{self.ending}"))

    def size(self, path: str | None = None) -> int:
        return sum(each.stat().st_size for each in self.data(path))

    def table(self, name: str) -> Any:
        return self.spark.table(name)

    def inside(self, table: str) -> str:
        return str(self.folder.parents[1] / "warehouse" / table)

    def plan(self, frame: Any) -> str:
        frame.createOrReplaceTempView("planned")
        return self.spark.sql("EXPLAIN SELECT * FROM planned").first()[0].replace(str(self.folder), "")

    def scan(self, frame: Any) -> list[str]:
        return [line.strip(" +-:*") for line in self.plan(frame).splitlines() if "FileScan" in line]

    def tried(self, run: Callable[[], Any]) -> str:
        """Run something; return "done", or the class and condition of the error."""
        try:
            run()
        except Exception as error:
            condition = str(getattr(error, "getCondition", lambda: None)())
            # The rest of this condition depends on the format.
            return f"{type(error).__name__} {'FAILED_READ_FILE' if 'FAILED_READ_FILE' in condition else condition}"
        return "done"

    def ran(self, text: str) -> str:
        return self.tried(lambda: self.sql(text))

    def outcome(self, *names: str, **options: Any) -> str:
        return self.tried(lambda: self.read(*names, **options))

    @contextlib.contextmanager
    def conf(self, **settings: Any) -> Iterator[None]:
        """Use settings in a block; __ in their names stands for a dot."""
        names = {name.replace("__", "."): value for name, value in settings.items()}
        old = {name: self.spark.conf.get(name, None) for name in names}
        for name, value in names.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in old.items():
                self.spark.conf.unset(name) if value is None else self.spark.conf.set(name, value)


class Twins(Ways):
    """Each method is a twin; its results with both formats are compared."""

    # Folders and columns.

    def partitions_and_pruning(self) -> Any:
        self.save(self.numbers(), "t", "k", "s")
        found = self.load()
        asked = found.where("k = 1 AND s = '1' AND id > 4").select("v", "s")
        return self.files(), found.dtypes, self.rows(found), self.rows(asked), self.scan(asked)

    def keys_of_many_types(self) -> Any:
        keys = ["date'2024-02-29' d", "CAST(id AS STRING) n", "'a b=%é/' s", "CAST(NULL AS STRING) e", "1.5D f"]
        self.save(self.spark.range(2).selectExpr("id", *keys), "t", "d", "n", "s", "e", "f")
        with self.conf(spark__sql__sources__partitionColumnTypeInference__enabled="false"):
            texts = self.load()
            untyped = texts.dtypes, self.rows(texts)
        typed, asked = self.load(), self.load(schema="id BIGINT, d STRING, n BYTE")
        some = typed.where("d > '2024-01-01' AND n = 1")
        return self.files(), untyped, typed.dtypes, self.rows(typed), self.rows(some), asked.dtypes, self.rows(asked)

    def base_path_and_many_paths(self) -> Any:
        self.save(self.numbers(), "t", "k")
        self.save(self.numbers(3), "u/k=7")
        below = self.load("t/k=1", basePath=self.path())
        return (below.dtypes, self.rows(below), self.read("t/k=1", "t/k=2"), self.outcome("t", "u"))

    def no_columns_count(self) -> Any:
        self.save(self.numbers(), "t", "k")
        return self.load().count(), self.load().where("k = 1").count(), self.scan(self.load().selectExpr("1 AS one"))

    def dynamic_partition_pruning(self) -> Any:
        self.save(self.numbers(), "t", "k")
        self.save(self.numbers(3), "few")
        joined = self.load().alias("a").join(self.load("few").where("v = 2").alias("b"), "k").select("a.id")
        return self.rows(joined), "dynamicpruning" in self.plan(joined)

    def metadata_of_files(self) -> Any:
        path = self.save(self.numbers(), "t", "k")
        fields = ("path", "name", "size", "block_start", "block_length", "modification_time")
        found = self.load().select("id", "k", *(f"_metadata.file_{name}" for name in fields))
        asked, true = sorted(found.collect()), []
        for row in asked:
            file = Path(row.file_path.removeprefix("file:").replace("//", "/"))
            moment = abs(file.stat().st_mtime - row.file_modification_time.timestamp()) < 1
            true += [file.name == row.file_name, file.stat().st_size == row.file_size, moment, path in str(file)]
        name = asked[0].file_name
        some = found.where(f"file_size > 0 AND file_name = '{name}' AND file_modification_time > '2001-01-01'")
        starts = {row.file_block_start for row in asked}
        return found.dtypes, all(true), starts, self.rows(some.select("id"))

    def metadata_has_row_numbers(self) -> Any:
        self.save(self.numbers())
        return self.tried(lambda: self.load().select("_metadata.row_index").collect())

    def name_of_the_input_file(self) -> Any:
        self.save(self.numbers())
        names = self.load().selectExpr("id", "input_file_name() n", "input_file_block_start() b")
        return [(row.id, Path(row.n).name, row.b) for row in sorted(names.collect())]

    def columns_by_name(self) -> Any:
        struct = "named_struct('a', id, 'b', array(named_struct('c', 1, 'd', 'x'))) st"
        self.save(self.spark.range(3).selectExpr("id", struct))
        missing = self.load(schema="nope STRING, st STRUCT<B: ARRAY<STRUCT<D: STRING, e: INT>>, z: INT>, id BIGINT")
        return (
            self.rows(missing),
            missing.dtypes,
            self.rows(self.load().select("st.b.d", "st.a")),
            self.rows(self.load().where("st.a > 1")),
        )

    def more_columns_than_code_is_made_for(self) -> Any:
        self.save(self.spark.range(50).selectExpr(*[f"id + {number} c{number}" for number in range(150)]))
        return self.load().orderBy("c149", ascending=False).first()[:3]

    def case_of_names(self) -> Any:
        found = []
        self.save(self.spark.range(3).selectExpr("id AS Ab", "id AS c"))
        for sensitive in ("false", "true"):
            with self.conf(spark__sql__caseSensitive=sensitive):
                found += [
                    self.read(schema="aB BIGINT, C BIGINT"),
                    self.tried(lambda: self.load().select("ab").collect()),
                ]
        with self.conf(spark__sql__caseSensitive="true"):
            self.save(self.spark.range(3).selectExpr("id AS a", "id + 1 AS A"), "both")
            found += [self.rows(self.load("both").select("A")), self.load("both").dtypes]
        return found, self.outcome("both")

    def odd_names(self) -> Any:
        names = ["a.b", "x y", "é", ",;{}()=", "tab\tline\n", "`", "sum(id)", "", " "]
        frame = self.spark.range(2).selectExpr(*["id"] * len(names)).toDF(*names)
        self.save(frame)
        return (self.load().columns, self.read(), self.rows(self.load().select("`a.b`", "`x y`").where("`a.b` > 0")))

    # Schemas.

    def types(self) -> Any:
        self.save(self.spark.range(3).selectExpr(*TYPES))
        found = self.load()
        years = found.selectExpr("string(ym)", "string(y)")  # PySpark has no values for these
        nullable = [each.nullable for each in found.schema]
        return found.dtypes, self.rows(found.drop("ym", "y")), self.rows(years), nullable

    def times_of_day(self) -> Any:
        try:
            frame = self.spark.sql("SELECT TIME'12:13:14.123456' t, CAST(NULL AS TIME(0)) z")
        except Exception as error:  # Spark 4.0 has no such type
            return type(error).__name__
        self.save(frame)
        return self.load().dtypes, self.read()

    def user_defined_types(self) -> Any:
        from pyspark.ml.linalg import Vectors

        rows = [(1, Vectors.dense([1.0, 2.0])), (2, Vectors.sparse(3, [1], [5.0])), (3, None)]
        self.save(self.spark.createDataFrame(rows, ["id", "v"]).coalesce(1))
        return str(self.load().schema), sorted((row.id, str(row.v)) for row in self.load().collect())

    def user_defined_types_of_others(self) -> Any:
        from pyspark.sql.types import StructType
        from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

        schema = StructType().add("p", ExamplePointUDT())
        self.save(self.spark.createDataFrame([(ExamplePoint(1.0, 2.0),)], schema).coalesce(1))
        return self.load().schema["p"].dataType.simpleString()

    def comments_and_collations(self) -> Any:
        frame = self.spark.sql("SELECT id, 'x' COLLATE UTF8_LCASE AS s FROM range(2)")
        self.save(frame.withMetadata("id", {"comment": "a number", "n": 3}))
        return self.load().schema.json(), self.rows(self.load().where("s = 'X'"))

    def schemas_merged(self) -> Any:
        self.save(self.spark.sql("SELECT 1 a, 'x' b, named_struct('p', 1) st"), "t/k=1")
        self.save(self.spark.sql("SELECT 2 a, 2.5D c, named_struct('q', 'y') st"), "t/k=2")
        merged = self.load(mergeSchema=True)
        with self.conf(spark__sql__parquet__mergeSchema="true"):
            self.load().schema  # noqa: B018  (Parquet has a setting of its own)
        return (
            sorted(merged.dtypes),
            self.rows(merged.select("a", "b", "c", "st.p", "st.q", "k")),
            len(self.load().columns),
        )

    def schemas_that_clash(self) -> Any:
        self.save(self.spark.sql("SELECT 1 a"), "t/k=1")
        self.save(self.spark.sql("SELECT array('x') a"), "t/k=2")
        return self.outcome(mergeSchema=True) != "done"

    def wider_numbers(self) -> Any:
        numbers = "CAST(id AS INT) i", "CAST(id AS FLOAT) f", "CAST(id AS DECIMAL(5,2)) d"
        self.save(self.spark.range(3).selectExpr(*numbers))
        return self.read(schema="i BIGINT, f DOUBLE, d DECIMAL(9,2)"), self.read(schema="i DOUBLE")

    def numbers_asked_as_texts(self) -> Any:
        self.save(self.numbers())
        return self.outcome(schema="id ARRAY<INT>")

    def no_rows(self) -> Any:
        path = self.save(self.numbers(0))
        os.makedirs(self.path("empty"))
        with_schema = self.load("empty", schema="a INT")
        nothing = self.outcome("empty"), self.outcome("nowhere")
        return (self.files(path), self.load().dtypes, self.read(), self.rows(with_schema), with_schema.count(), nothing)

    def schemas_that_cannot_be_written(self) -> Any:
        ask = ["CAST('1 day' AS INTERVAL) i", "1 a, 2 a", "1 a, 2 A", "array(CAST('1 day' AS INTERVAL)) l"]
        return [self.tried(lambda sql=sql: self.save(self.spark.sql(f"SELECT {sql}"), "bad")) for sql in ask]

    def columns_of_nulls_and_variants(self) -> Any:
        return [
            self.tried(lambda n=n, sql=sql: self.save(self.spark.sql(f"SELECT {sql} x"), n))
            for n, sql in (("n", "NULL"), ("v", "parse_json('1')"))
        ]

    # Which files are read.

    def hidden_files(self) -> Any:
        self.save(self.numbers(5, 1))
        for name in (f"_hidden{self.ending}", f".hidden{self.ending}", "_SUCCESS", "_temporary/0/part-0" + self.ending):
            (Path(self.path()) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(self.path()) / name).write_bytes(b"?" * 99)
        found = self.read()
        (Path(self.path()) / f"empty{self.ending}").touch()
        return found, self.read(schema="id BIGINT")

    def globs_and_moments(self) -> Any:
        self.save(self.numbers(4, 2))
        old, new = self.data()
        os.utime(old, (1e9, 1e9))
        shutil.copy(new, new.with_name("other.x"))
        moment = "2020-01-01T00:00:00"
        found = self.read(pathGlobFilter=f"*{self.ending}"), self.read(pathGlobFilter="*.x")
        return found, self.read("t/part-00001*"), self.read(modifiedAfter=moment), self.read(modifiedBefore=moment)

    def recursive_lookup(self) -> Any:
        self.save(self.numbers(), "t", "k")
        self.save(self.numbers(3, 1), "t/deep/er")
        deep = self.load(recursiveFileLookup=True)
        return deep.dtypes, self.rows(deep), self.outcome()

    def corrupt_files(self) -> Any:
        self.save(self.numbers())
        (Path(self.path()) / f"zzz{self.ending}").write_bytes(b"no such format" * 99)
        schema = "id BIGINT, v BIGINT"
        ignoring = self.load(schema=schema, ignoreCorruptFiles=True)
        with self.conf(spark__sql__files__ignoreCorruptFiles="true"):
            by_setting = self.read(schema=schema), self.read()
        return self.rows(ignoring), by_setting, self.outcome(schema=schema)

    def missing_files(self) -> Any:
        self.save(self.numbers())
        found, ignoring = self.load(), self.load(ignoreMissingFiles=True)
        self.data()[0].unlink()
        return self.rows(ignoring), self.tried(found.collect)

    def splits(self) -> Any:
        found = []
        for form in ("file", "stream"):  # an option that Parquet does not have
            options = {"batchRows": 1000, "format": form, "parquet.block.size": 9000}
            self.save(self.numbers(20000, 1), form, **options)
            with self.conf(spark__sql__files__maxPartitionBytes=20000, spark__sql__files__openCostInBytes=0):
                parts = self.load(form).selectExpr("spark_partition_id() p", "id").groupBy("p")
                parts = parts.agg({"id": "sum", "p": "count"}).collect()
            found += [len(parts) > 2, sum(row["sum(id)"] for row in parts), sum(row["count(p)"] for row in parts)]
        return found

    # Writing.

    def modes(self) -> Any:
        found = []
        for mode in ("error", "ignore", "append", "append", "overwrite", "ignore", "error"):
            found += [self.tried(lambda mode=mode: self.save(self.numbers(3, 1), mode=mode)), self.files(), self.read()]
        return (found, self.tried(lambda: self.save(self.load(), mode="overwrite")), self.outcome())

    def tasks_that_fail(self) -> Any:
        # In one task: another one may still write after Spark has removed the files of the job, whatever the format.
        failing = self.numbers(1000, 1).selectExpr("IF(id = 700, raise_error('stop'), id) AS x")
        return self.tried(lambda: self.save(failing)), self.files()

    def rows_per_file(self) -> Any:
        path = self.save(self.numbers(25, 2), maxRecordsPerFile=5)
        return self.files(path), self.rows(self.load().groupBy("_metadata.file_name").count().select("count"))

    def overwriting_partitions(self) -> Any:
        found = []
        some = self.numbers(3, 1).where("k = 1")
        for dynamic in (False, True):
            self.save(self.numbers(), f"by option {dynamic}", "k")
            option = {"partitionOverwriteMode": "dynamic"} if dynamic else {}
            self.save(some, f"by option {dynamic}", "k", mode="overwrite", **option)
            self.save(self.numbers(), f"by setting {dynamic}", "k")
            with self.conf(spark__sql__sources__partitionOverwriteMode="dynamic" if dynamic else "static"):
                self.save(some, f"by setting {dynamic}", "k", mode="overwrite")
            found += [self.read(f"by {how} {dynamic}") for how in ("option", "setting")]
        return found

    def compressions(self) -> Any:
        flat = self.spark.range(5000).selectExpr("id % 2 AS a", "'x' AS b")
        sizes = {
            name: self.size(self.save(flat, name, compression=name))
            for name in ("none", "uncompressed", "zstd", "ZSTD")
        }
        wrong = self.tried(lambda: self.save(flat, "wrong", compression="bogus")).split()[0]
        return (
            sizes["none"] > 1000,
            sizes["zstd"] <= sizes["none"],
            len({*sizes.values()}),
            self.load("zstd").count(),
            wrong,
        )

    def compressions_of_one_format(self) -> Any:
        return [
            self.tried(lambda name=name: self.save(self.numbers(), name, compression=name))
            for name in ("lz4", "snappy")
        ]

    # Tables.

    def saved_as_a_table(self) -> Any:
        self.numbers().write.format(self.format).partitionBy("k").saveAsTable("saved")
        self.numbers(3, 1, 100).write.format(self.format).mode("append").partitionBy("k").saveAsTable("saved")
        self.numbers(2, 1, 200).select("id", "v", "s", "k").write.insertInto("saved")
        other = "orc" if self.format == "parquet" else "parquet"
        wrong = self.tried(lambda: self.numbers(1).write.format(other).mode("append").saveAsTable("saved"))
        kept = self.sql("SELECT * FROM saved"), self.sql("SHOW CREATE TABLE saved"), self.sql("SHOW PARTITIONS saved")
        shown = [line for line in self.sql("DESCRIBE EXTENDED saved") if re.search("Provider|Type|Serde|Format", line)]
        return kept, shown, self.files(self.inside("saved")), wrong

    def created_as_selected(self) -> Any:
        self.sql("CREATE TABLE made USING FORMAT AS SELECT id, id * 2 v FROM range(5)")
        self.sql("CREATE TABLE parted USING FORMAT PARTITIONED BY (k) COMMENT 'c' AS SELECT id, id % 3 k FROM range(6)")
        self.sql("CREATE TABLE far USING FORMAT LOCATION 'FOLDER/far' AS SELECT 1 a")
        self.sql("CREATE TABLE again USING FORMAT LOCATION 'FOLDER/far'")
        found = [self.sql(f"SELECT * FROM {name}") for name in ("made", "parted", "far", "again")]
        return (
            found,
            self.sql("SHOW CREATE TABLE parted"),
            self.sql("SHOW CREATE TABLE again"),
            self.files(self.inside("parted")),
        )

    def inserted(self) -> Any:
        self.sql("CREATE TABLE into (a INT, b STRING, k INT) USING FORMAT PARTITIONED BY (k)")
        self.sql("INSERT INTO into VALUES (1, 'x', 1), (2, NULL, 2)")
        self.sql("INSERT INTO into (k, a) VALUES (3, 3)")
        self.sql("INSERT INTO into PARTITION (k = 4) SELECT 4, 'four'")
        self.sql("INSERT INTO into BY NAME SELECT 5 k, 'five' b, 5 a")
        found = [self.sql("SELECT * FROM into")]
        self.sql("INSERT OVERWRITE into PARTITION (k = 4) VALUES (44, 'forty')")
        found.append(self.sql("SELECT * FROM into"))
        with self.conf(spark__sql__sources__partitionOverwriteMode="dynamic"):
            self.sql("INSERT OVERWRITE into VALUES (11, 'y', 1)")
        found.append(self.sql("SELECT * FROM into"))
        self.sql("INSERT OVERWRITE into VALUES (111, 'z', 1)")
        self.sql("INSERT OVERWRITE DIRECTORY 'FOLDER/directory' USING FORMAT SELECT 1 a")
        wrong = self.ran("INSERT INTO into VALUES ('no number', 1, 1)")
        same = self.ran("INSERT OVERWRITE into SELECT * FROM into")
        return found, self.sql("SELECT * FROM into"), self.read("directory"), wrong, same

    def buckets(self) -> Any:
        for name in ("bucketed", "other"):
            self.numbers().write.format(self.format).bucketBy(4, "v").sortBy("v").saveAsTable(name)
        with self.conf(spark__sql__autoBroadcastJoinThreshold=-1):
            joined = self.table("bucketed").alias("a").join(self.table("other").alias("b"), "v").select("a.id")
            plan = self.plan(joined)
        one = self.plan(self.table("bucketed").where("v = 6"))
        pruned = re.findall(r"SelectedBucketsCount: [^,\n]*", plan + one)
        return (
            self.files(self.inside("bucketed")),
            self.rows(joined),
            "Exchange" in plan,
            pruned,
            self.sql("SHOW CREATE TABLE other"),
        )

    def selected_from_a_path(self) -> Any:
        self.save(self.numbers(), "t", "k")
        return self.sql("SELECT * FROM FORMAT.`FOLDER/t` WHERE k = 2"), self.tried(
            lambda: self.sql("SELECT * FROM FORMAT.`FOLDER/no`")
        )

    def options_of_tables(self) -> Any:
        for name, codec in (("packed", "zstd"), ("plain", "none")):
            options = f"OPTIONS (compression '{codec}') TBLPROPERTIES ('p' = 'q')"
            self.sql(f"CREATE TABLE {name} (a BIGINT) USING FORMAT {options}")
            self.sql(f"INSERT INTO {name} SELECT id % 2 FROM range(0, 20000, 1, 1)")
        sizes = self.size(self.inside("packed")), self.size(self.inside("plain"))
        return sizes[0] <= sizes[1], self.sql("SHOW CREATE TABLE packed"), self.sql("SELECT sum(a) FROM packed")

    def tables_altered(self) -> Any:
        self.sql("CREATE TABLE old (a INT, k INT) USING FORMAT PARTITIONED BY (k)")
        self.sql("INSERT INTO old VALUES (1, 1), (2, 2)")
        statements = (
            "ALTER TABLE old ADD PARTITION (k = 7)", "ALTER TABLE old DROP PARTITION (k = 2)",
            "ALTER TABLE old PARTITION (k = 1) RENAME TO PARTITION (k = 9)", "ALTER TABLE old DROP COLUMN a",
            "ALTER TABLE old CHANGE COLUMN a a INT COMMENT 'c'", "ALTER TABLE old RENAME COLUMN a TO b",
            "ALTER TABLE old SET TBLPROPERTIES (x = 1)", "ALTER TABLE old RENAME TO new", "MSCK REPAIR TABLE new",
            "ANALYZE TABLE new COMPUTE STATISTICS", "ANALYZE TABLE new COMPUTE STATISTICS FOR ALL COLUMNS",
            "REFRESH TABLE new", "TRUNCATE TABLE new PARTITION (k = 9)",
        )  # fmt: skip
        done = [self.ran(sql) for sql in statements]
        kept = self.sql("SELECT * FROM new"), self.sql("SHOW PARTITIONS new"), self.sql("SHOW CREATE TABLE new")
        return done, kept, self.sql("DESCRIBE EXTENDED new a")[:8]

    def columns_added_to_a_table(self) -> Any:
        self.sql("CREATE TABLE wider (a INT) USING FORMAT")
        return [self.ran("ALTER TABLE wider ADD COLUMNS (b INT)"), repr(self.sql("SELECT * FROM wider"))]

    def texts_of_some_length(self) -> Any:
        columns = "a CHAR(5) COMMENT 'hello', b VARCHAR(3), c STRING"
        self.sql(f"CREATE TABLE texts ({columns}) USING FORMAT LOCATION 'FOLDER/t'")
        self.sql("INSERT INTO texts VALUES ('ab', 'abc', 'x'), (NULL, '', NULL)")
        long = self.ran("INSERT INTO texts VALUES ('a', 'abcd', 'x')")
        found = self.sql("SELECT a, length(a), b FROM texts WHERE a = 'ab'"), self.read(), self.load().schema.json()
        return found, long, self.table("texts").schema.json(), self.sql("DESCRIBE texts")

    def defaults(self) -> Any:
        with self.conf(spark__sql__defaultColumn__allowedProviders="parquet,arrowipc"):
            self.sql("CREATE TABLE filled (a INT, b INT DEFAULT 7, c STRING DEFAULT 'x') USING FORMAT")
            self.sql("INSERT INTO filled (a) VALUES (1)")
            self.sql("INSERT INTO filled VALUES (2, DEFAULT, DEFAULT), (3, 3, NULL)")
            return self.sql("SELECT * FROM filled"), self.sql("SHOW CREATE TABLE filled")

    def defaults_without_a_setting(self) -> Any:
        return self.ran("CREATE TABLE unset (a INT DEFAULT 7) USING FORMAT")

    # Payloads: rows that were encoded and decoded, compared with rows that were not.

    def payloads(self) -> Any:
        rows = self.numbers(60, 3)
        if self.format == "arrowipc":
            self.spark.conf.set("spark.sql.catalog.arrowipc", "org.arrowipc.spark.payloads.ArrowIpcCatalog")
            rows.createOrReplaceTempView("numbers")
            grouped = "arrowipc.`compression=zstd`.to_arrow(collect_list(struct(id, v, s)))"
            cells = f"SELECT k, {grouped} AS cell FROM numbers GROUP BY k"
            decoded = "inline(arrowipc.`id bigint, v bigint, s string`.from_arrow(cell))"
            rows = self.spark.sql(f"SELECT k, {decoded} FROM ({cells})").select("id", "v", "k", "s")
        again = rows.groupBy("k").sum("v")
        return self.rows(rows), self.rows(again), rows.dtypes

    # Streams.

    def streams(self) -> Any:
        def run() -> None:
            source = self.stream("id BIGINT, k BIGINT", maxFilesPerTrigger=1)
            sink = source.writeStream.format(self.format).partitionBy("k").trigger(availableNow=True)
            query = sink.option("checkpointLocation", self.path("checkpoint")).start(self.path())
            assert query.awaitTermination(200)

        self.save(self.numbers(), "in")
        run()
        self.save(self.numbers(6, 1, 50), "in", mode="append")
        run()
        shutil.copy(self.data(self.path("in"))[0], Path(self.path()) / "k=1" / f"foreign{self.ending}")
        log = sorted(each.name for each in (Path(self.path()) / "_spark_metadata").glob("[0-9]*"))
        modes = self.tried(lambda: self.save(self.numbers(1).select("id", "k"), "t", "k", mode="append"))
        without = self.tried(lambda: self.stream(None))
        return self.read(), self.load().dtypes, log, modes, without, len(self.data())


TWINS = [name for name in vars(Twins) if not name.startswith("_")]


def neutral(found: Any, folder: str) -> str:
    """A result as a text that is the same for both formats."""
    text = json.dumps(found, default=lambda value: sorted(value) if isinstance(value, set) else str(value), indent=1)
    text = text.replace(folder, "FOLDER")
    for pattern, word in NEUTRAL:
        text = re.sub(pattern, word, text)
    return text


def done(spark: Any, name: str, format: str, folder: Path) -> dict[str, str]:
    """Run one twin with one format; return its result or its error."""
    twins = Twins(spark, format, folder / format / name)
    twins.folder.mkdir(parents=True)
    try:
        return {"found": neutral(getattr(twins, name)(), str(twins.folder))}
    except Exception:
        return {"failed": traceback.format_exc()[-3000:]}
    finally:
        for table in spark.catalog.listTables():
            kind = "VIEW" if table.isTemporary or table.tableType == "VIEW" else "TABLE"
            spark.sql(f"DROP {kind} IF EXISTS {table.name}")


def session(master: str, jar: str, folder: Path, **settings: str) -> Any:
    """Start a session with the jar; __ in the names of settings stands for a dot."""
    from pyspark.sql import SparkSession

    way = SparkSession.builder
    for name, value in {
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.maxMetadataStringLength": "1000",  # plans show whole paths, however long
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }.items():
        way = way.config(name, value)
    connect, _, url = master.rpartition(" ")
    return (way.remote(url) if connect else way.master(url)).getOrCreate()


def main(master: str, jar: str, folder: str, *names: str) -> None:
    spark = session(master, jar, Path(folder))
    for name in names or TWINS:
        found = {format: done(spark, name, format, Path(folder)) for format in FORMATS}
        print(json.dumps({"twin": name, **found}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
