package android.graphics;

/** Test-only stub. */
public final class Bitmap {
    public int getWidth() { return 0; }

    public int getHeight() { return 0; }

    public void getPixels(int[] pixels, int offset, int stride, int x, int y, int width, int height) {}
}
