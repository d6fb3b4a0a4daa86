package android.graphics;

/** Test-only stub. */
public class Color {
    public static int rgb(int red, int green, int blue) { return 0; }

    public static int argb(int alpha, int red, int green, int blue) { return 0; }
}
