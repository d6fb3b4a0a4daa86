package android.os;

/** Test-only stub. */
public final class Bundle {}
