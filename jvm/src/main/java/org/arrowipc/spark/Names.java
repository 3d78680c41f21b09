package org.arrowipc.spark;

import java.util.Collection;

/** Names of columns as Spark means them: the only equal one, or else the only one that differs in case. */
final class Names {
  private Names() {}

  /** The name among some that another one means; null where there is none, or there are several. */
  static String find(String name, Collection<String> names) {
    String similar = null;
    boolean several = false;
    for (String each : names) {
      if (each.equals(name)) {
        return each;
      }
      if (each.equalsIgnoreCase(name)) {
        several = similar != null;
        similar = each;
      }
    }
    return several ? null : similar;
  }
}
