package android.content;

import android.content.res.AssetManager;

/** Test-only stub. */
public class Context {
    public static final String SENSOR_SERVICE = "sensor";

    public Object getSystemService(String name) { return null; }

    public AssetManager getAssets() { return null; }
}
