package com.google.ai.edge.litert;

/** Test-only stand-in; checked, so that Java code that forgets it doesn't compile. */
public class LiteRtException extends Exception {
    private static final long serialVersionUID = 1L;

    public LiteRtException(String message) {
        super(message);
    }
}
