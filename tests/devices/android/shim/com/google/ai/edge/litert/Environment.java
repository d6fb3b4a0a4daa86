package com.google.ai.edge.litert;

/** Test-only stand-in. */
public final class Environment implements AutoCloseable {
    @Override
    public void close() {}
}
