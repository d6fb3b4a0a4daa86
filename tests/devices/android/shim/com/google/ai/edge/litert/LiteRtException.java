package com.google.ai.edge.litert;

/** Test-only stand-in; checked, so that Java code that forgets it doesn't compile. */
public class LiteRtException extends Exception {
    public LiteRtException(String message) {
        super(message);
    }
}
