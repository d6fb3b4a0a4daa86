package android.graphics;

import java.io.InputStream;

/** Test-only stub. */
public class BitmapFactory {
    public static Bitmap decodeStream(InputStream is) { return null; }
}
