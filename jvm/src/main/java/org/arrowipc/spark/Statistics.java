package org.arrowipc.spark;

/** What a writer says of the values of each batch. */
public final class Statistics {
  static Statistics of(IpcFile file) {
    return null;
  }
}
