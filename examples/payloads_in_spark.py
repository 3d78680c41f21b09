"""Turn a binary column of Arrow payloads, as from Kafka, into rows inside mapInArrow.

python payloads_in_spark.py        # needs arrowipc[spark] and Java 17
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import arrowipc as ipc
from arrowipc.spark import decode_payload_batches

PAYLOAD = StructType().add("sensor", "string").add("value", "double")
ROWS = "topic string, sensor string, value double"


def payload(sensors: list[str], values: list[float]) -> bytes:
    """One message of a producer: a whole stream."""
    sink = bytearray()
    with ipc.new_stream(sink) as writer:
        writer.write(pa.table({"sensor": sensors, "value": values}))
    return bytes(sink)


def hot(batches):
    """Run in the Python workers: the hot rows of all payloads."""
    for batch in decode_payload_batches(batches, "payload", schema=PAYLOAD, keep=["topic"]):
        yield batch.filter(pc.greater(batch["value"], 30.0))


def main() -> None:
    """Make two messages, and print the hot rows."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    messages = spark.createDataFrame(
        [("roof", payload(["a", "b"], [31.5, 20.0])), ("cellar", payload(["c"], [35.0]))],
        "topic string, payload binary",
    )
    for row in messages.mapInArrow(hot, ROWS).orderBy("sensor").collect():
        print(row.topic, row.sensor, row.value)
    spark.stop()


if __name__ == "__main__":
    main()
