package android.graphics;

/** Test-only stub. */
public class Canvas {
    public void drawRect(float left, float top, float right, float bottom, Paint paint) {}

    public void drawLine(float startX, float startY, float stopX, float stopY, Paint paint) {}
}
