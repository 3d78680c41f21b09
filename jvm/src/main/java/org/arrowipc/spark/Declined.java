package org.arrowipc.spark;

/** This schema is not for the JVM: the plan goes by Python, which reads it or says better why not. */
public final class Declined extends RuntimeException {
  public Declined(String reason) { super(reason); }
}
