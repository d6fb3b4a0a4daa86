package org.tensorflow.lite;

/** Test-only stand-in. */
public interface Delegate extends AutoCloseable {
    long getNativeHandle();

    @Override
    default void close() {}
}
