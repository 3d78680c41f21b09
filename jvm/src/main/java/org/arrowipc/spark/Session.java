package org.arrowipc.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/** What the driver's session says: its settings for files, its cores, and how Hadoop finds file systems. */
final class Session {
  private Session() {}

  static Configuration configuration() {
    return SparkSession.active().sessionState().newHadoopConf();
  }

  /** A setting of bytes, if somebody has set it. */
  static Long bytes(String name) {
    SQLConf conf = SQLConf.get();
    if (!conf.contains(name)) {
      return null;
    }
    return name.endsWith("openCostInBytes") ? conf.filesOpenCostInBytes() : conf.filesMaxPartitionBytes();
  }

  /** How many tasks there are to be at least. */
  static int cores() {
    var asked = SQLConf.get().filesMinPartitionNum();
    return asked.isDefined() ? (Integer) asked.get() : SparkContext.getOrCreate().defaultParallelism();
  }
}
