package android.os;

/** Test-only stub. */
public final class Looper {
    public static Looper getMainLooper() { return null; }
}
