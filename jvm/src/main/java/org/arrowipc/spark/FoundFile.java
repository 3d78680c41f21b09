package org.arrowipc.spark;

import java.io.Serializable;
import java.util.Map;

/**
 * A file to read: its size in bytes, when it was modified in microseconds since 1970, and what the names of its
 * folders say, null under {@code __HIVE_DEFAULT_PARTITION__}.
 */
record FoundFile(String path, long size, long modified, Map<String, String> keys) implements Serializable {}
